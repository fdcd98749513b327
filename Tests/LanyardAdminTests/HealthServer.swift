import Dispatch
import LanyardAdmin
import LanyardFoundations
import LanyardRequestPath
import LanyardSettings
import Logging
import TestSupport

/// A health listener on a free port with a snapshot that a test sets.
final class HealthServer: Sendable {
    private final class Facts: Sendable {
        let box = Guarded(
            HealthSnapshot(
                users: [.init(name: "alice", isReady: true, reason: "token_valid", hasBeenReady: true)],
                activeUser: "alice", followsActiveUser: true, pinnedUsers: []))
    }

    private let facts: Facts
    let endpoint: RawEndpoint
    /// Holds the control plane's work back while the test says so.
    let controlPlane = DispatchQueue(label: "test.control-plane")
    private let loop: EventLoop
    private let listener: HealthListener

    init(limits: OperatorLimits = .health, unixPath: String? = nil) throws {
        let facts = Facts()
        let queue = controlPlane
        let pages = HealthPages(
            HealthPages.Sources(
                snapshot: { facts.box.withLock { $0 } },
                samples: {
                    [MetricSample("lanyard_requests", suffix: "_total", labels: [.init("route", "a")], value: 3)]
                },
                controlPlane: { queue.async(execute: $0) }),
            version: "1.2.3", commit: "abc")
        let address: ListenerSettings.Address = unixPath.map { .unix(path: $0) } ?? .tcp(host: "127.0.0.1", port: 0)
        let socket = try ListeningSocket(ListenerSettings(address: address))
        endpoint = try RawEndpoint(socket.address.description)
        loop = try EventLoop(label: "test.health")
        loop.start()
        listener = HealthListener(
            socket, loop: loop, pages: pages, limits: limits,
            log: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
        self.facts = facts
        listener.start()
    }

    deinit {
        listener.stop()
        loop.stop()
    }

    func change(_ change: (inout HealthSnapshot) -> Void) { facts.box.withLock { change(&$0) } }

    func ask(_ method: String, _ target: String, fields: [(String, String)] = []) async throws -> RawMessage {
        try await RawClient.ask(endpoint, method, target, fields: fields)
    }
}
