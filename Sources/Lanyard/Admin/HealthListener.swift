import Dispatch
import Logging

/// Answers probes and scrapers on an event loop of its own, with a connection budget of its own: whatever the shards are doing.
///
/// It waits for nobody: its answers come from snapshots and relaxed counters. Slow clients cost a place of the budget and nothing else.
package final class HealthListener: OperatorHandler {
    private let hosts: AllowedHosts
    private let pages: HealthPages
    private let listener: OperatorListener

    /// No thread and no event before `start`.
    ///
    /// - Parameter loop: started and stopped by somebody else, and shared with admin.
    package init(
        _ socket: ListeningSocket, loop: EventLoop, pages: HealthPages, limits: HealthLimits = HealthLimits(),
        log: Logger
    ) {
        self.pages = pages
        let names = socket.port.map { ["\(socket.address)", "localhost:\($0)"] }
        hosts = AllowedHosts(names, allowsLiterals: true)
        let profile = OperatorListener.Profile(name: "health", client: "a probe", acceptsPerTurn: 16, reserveCount: 4)
        listener = OperatorListener(socket, loop: loop, limits: limits, profile: profile, log: log)
    }

    /// What was bound.
    package var address: ListenerSettings.Address { listener.address }

    /// Begins to accept. Once.
    package func start() {
        listener.loop.post { [self] in
            pages.watch(on: listener.loop)
            listener.start(for: self)
        }
    }

    /// Closes the listener and every connection: the last act of a drain. Waits for it, from elsewhere than the loop, so that a unix
    /// socket's path is gone before the process is.
    package func stop() {
        listener.loop.queue.sync {
            listener.stop()
            pages.unwatch()
        }
    }

    /// Host and method, in this order; then the page.
    func decide(
        _ head: RequestHead, _ target: OperatorTarget, in bytes: Bytes, _ table: FieldTable, peer: PeerCredentials
    ) -> OperatorDecision {
        if let refusal = target.refusal(by: hosts, head, in: bytes, table, unknown: .hostNotAllowed) {
            return .response(refusal)
        }
        guard head.kind == .get || head.kind == .head else { return .response(.methodNotAllowed()) }
        var request = HealthRequest(path: String(decoding: target.path, as: UTF8.self))
        for index in 0..<table.count where table.name(index, in: bytes).equals(lowered: "accept") {
            request.accept.append(String(decoding: table.value(index, in: bytes), as: UTF8.self))
        }
        return .response(pages.response(to: request, connections: listener.connectionCount))
    }
}
