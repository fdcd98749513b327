import Dispatch
import LanyardFoundations
import LanyardRequestPath
import LanyardSettings
import LanyardTelemetry
import Logging

/// Serves health probes and metric scrapers on its own event loop, with its own connection limit, independently of the shards.
///
/// It never waits: responses come from snapshots and relaxed counters, and `/metrics` is made on another queue. A slow client costs one
/// connection of the limit.
package final class HealthListener: OperatorHandler {
    /// What was bound; nil: a unix socket, on which any host is allowed.
    private let bound: (address: String, port: UInt16)?
    /// On the loop's queue, once it has started.
    private nonisolated(unsafe) var hosts: AllowedHosts
    private let pages: HealthPages
    private let listener: OperatorListener
    private let metrics: MetricsPages

    /// No thread and no event before `start`.
    ///
    /// - Parameters:
    ///   - loop: shared with admin; the caller starts and stops it.
    ///   - allowedHosts: what requests may name besides IP addresses and localhost.
    ///   - time: measures how long a page of `/metrics` takes, on any queue.
    package init(
        _ socket: ListeningSocket, loop: EventLoop, pages: HealthPages, allowedHosts: [String] = [],
        limits: OperatorLimits = .health, log: Logger, time: @escaping @Sendable () -> Instant = { .now }
    ) {
        self.pages = pages
        bound = socket.port.map { (socket.address.authority, $0) }
        hosts = Self.hosts(bound, allowedHosts)
        let profile = OperatorListener.Profile(name: "health", client: "a probe", acceptsPerTurn: 16, reserveCount: 4)
        let listener = OperatorListener(socket, loop: loop, limits: limits, profile: profile, log: log)
        self.listener = listener
        metrics = MetricsPages(
            on: loop, samples: { pages.samples() }, connections: { listener.connectionCount }, time: time)
    }

    /// The bound address.
    package var address: ListenerSettings.Address { listener.address }

    /// Replaces the hosts that requests may name besides IP addresses and localhost. They apply when it returns. Not from the loop's queue.
    package func allow(_ hosts: [String]) {
        let done = DispatchSemaphore(value: 0)
        // Not by a call that waits for the queue: the loop lingers on it, and only a post wakes it.
        listener.loop.post { [self] in
            self.hosts = Self.hosts(bound, hosts)
            done.signal()
        }
        done.wait()
    }

    /// A host without a port is allowed with none and with the listener's.
    private static func hosts(_ bound: (address: String, port: UInt16)?, _ others: [String]) -> AllowedHosts {
        guard let bound else { return AllowedHosts(nil) }
        let added = others.flatMap { host in
            host.last == "]" || !host.contains(":") ? ["\(host):80", "\(host):\(bound.port)"] : [host]
        }
        return AllowedHosts([bound.address, "localhost:\(bound.port)"] + added, allowsLiterals: true)
    }

    /// Starts to accept connections. Once.
    package func start() {
        listener.loop.post { [self] in
            pages.watch(on: listener.loop)
            listener.start(for: self)
        }
    }

    /// Closes the listener and every connection, as the last step of a drain. Blocks until that is done, so that a unix socket's path is
    /// removed before the process exits. Not from the loop's queue.
    package func stop() {
        listener.loop.queue.sync {
            listener.stop()
            metrics.stop()
            pages.unwatch()
        }
    }

    /// Checks the host, the origin and the method, then selects the page.
    func decide(
        _ head: RequestHead, _ target: OperatorTarget, in bytes: Bytes, _ table: FieldTable, peer: PeerCredentials
    ) -> OperatorDecision {
        listener.loop.assertIsCurrent()
        if let refusal = target.refusal(by: hosts, head, in: bytes, table, unknown: .hostNotAllowed) {
            return .response(refusal)
        }
        if target.isFromWebPage(head, in: bytes, table) { return .response(.originNotAllowed) }
        guard head.kind == .get || head.kind == .head else { return .response(.methodNotAllowed()) }
        let path = String(decoding: target.path, as: UTF8.self)
        if let response = pages.response(to: path) { return .response(response) }
        var accepted: [String] = []
        for index in 0..<table.count where table.name(index, in: bytes).equals(lowered: "accept") {
            accepted.append(String(decoding: table.value(index, in: bytes), as: UTF8.self))
        }
        return .page(metrics, MetricsFormat(accept: accepted))
    }
}

/// The health listener's own problems.
extension OperatorResponse {
    static func methodNotAllowed() -> OperatorResponse {
        var response = problem(
            405, "method-not-allowed", "Method not allowed", "The health listener accepts GET and HEAD only.")
        response.allow = "GET, HEAD"
        return response
    }

    static let hostNotAllowed = problem(
        421, "host-not-allowed", "Host not allowed",
        "Name the health listener by an IP address, by localhost with its port, or by a host of health.allowed_hosts.")
}
