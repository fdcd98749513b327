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

    /// What `/metrics` is made of.
    final class Metrics: Sendable {
        private struct Hold {
            let isBegun = Milestone()
            let end = DispatchSemaphore(value: 0)
        }

        private let made = Counter()
        /// How long a page takes, by the time that measures it.
        let cost = Guarded(Duration.milliseconds(250))
        private let time = Guarded(Instant.now)
        private let hold = Guarded<Hold?>(nil)
        /// A value that each page shows.
        let requests = Guarded(3.0)

        /// Pages made so far, the one in progress included.
        var pagesMade: Int { made.value }

        /// The next page is not completed before `release`.
        func holdNext() { hold.withLock { $0 = Hold() } }

        /// Waits until the page that is held is being made.
        func untilHeld() { hold.withLock { $0 }?.isBegun.wait(for: "a page is being made") }

        func release() {
            let ended = hold.withLock { hold in
                defer { hold = nil }
                return hold
            }
            ended?.end.signal()
        }

        fileprivate func now() -> Instant { time.withLock { $0 } }

        fileprivate func samples() -> [MetricSample] {
            made.add()
            let cost = cost.withLock { $0 }
            time.withLock { $0 = $0 + cost }
            if let hold = hold.withLock({ $0 }) {
                hold.isBegun.set()
                hold.end.wait()
            }
            let value = requests.withLock { $0 }
            return [MetricSample("lanyard_requests", suffix: "_total", labels: [.init("route", "a")], value: value)]
        }
    }

    private let facts: Facts
    let metrics = Metrics()
    let endpoint: RawEndpoint
    let controlPlane: ControlPlane
    private let loop: EventLoop
    private let listener: HealthListener

    /// A loop whose work the test holds back.
    final class ControlPlane: Sendable {
        private let held = Held()
        fileprivate let loop: EventLoop

        private final class Held: Sendable {
            /// nil: work is done.
            let work = Guarded<[@Sendable () -> Void]?>(nil)
        }

        fileprivate init() throws {
            loop = try EventLoop(label: "test.control-plane")
            loop.start()
        }

        deinit { loop.stop() }

        func suspend() { held.work.withLock { $0 = [] } }

        func resume() {
            let work = held.work.withLock { work in
                defer { work = nil }
                return work ?? []
            }
            for piece in work { loop.post(piece) }
        }

        fileprivate func perform(_ piece: @escaping @Sendable () -> Void) {
            let isHeld = held.work.withLock { work in
                work?.append(piece)
                return work != nil
            }
            if !isHeld { loop.post(piece) }
        }
    }

    /// - Parameter timeStands: the time of the listener and the control plane passes by `pass` alone.
    init(
        limits: OperatorLimits = .health, allowedHosts: [String] = [], unixPath: String? = nil, timeStands: Bool = false
    ) throws {
        let facts = Facts()
        let controlPlane = try ControlPlane()
        self.controlPlane = controlPlane
        let pages = HealthPages(
            HealthPages.Sources(
                snapshot: { facts.box.withLock { $0 } },
                samples: { [metrics] in metrics.samples() },
                controlPlane: { controlPlane.perform($0) }),
            version: "1.2.3", commit: "abc")
        let address: ListenerSettings.Address = unixPath.map { .unix(path: $0) } ?? .tcp(host: "127.0.0.1", port: 0)
        let socket = try ListeningSocket(ListenerSettings(address: address))
        endpoint = try RawEndpoint(socket.address.description)
        loop = try EventLoop(label: "test.health")
        loop.start()
        if timeStands { [loop, controlPlane.loop].freezeTime() }
        listener = HealthListener(
            socket, loop: loop, pages: pages, allowedHosts: allowedHosts, limits: limits,
            log: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }, time: { [metrics] in metrics.now() })
        self.facts = facts
        listener.start()
    }

    deinit {
        listener.stop()
        loop.stop()
    }

    /// As a reload does.
    func allow(_ hosts: [String]) { listener.allow(hosts) }

    func pass(_ duration: Duration) { [loop, controlPlane.loop].pass(duration) }

    func change(_ change: (inout HealthSnapshot) -> Void) { facts.box.withLock { change(&$0) } }

    func ask(_ method: String, _ target: String, fields: [(String, String)] = []) async throws -> RawMessage {
        try await RawClient.ask(endpoint, method, target, fields: fields)
    }
}
