import LanyardFoundations
import LanyardSessionInterface
import Logging

/// The calls to an identity service that are no session's own, while they have no response: revocations and calls about accounts. Logs
/// each that takes long enough to be named.
///
/// Belongs to the loop of the identity, except where a method says otherwise.
final class CallWatch: Watcher, @unchecked Sendable {
    private let loop: EventLoop
    private let identity: String
    private let logger: Logger
    /// In the order of their beginnings.
    private let calls = Guarded<[CallProgress]>([])
    /// The call that was logged last began then.
    private var loggedUntil = Instant.past
    private lazy var deadline = Deadline(of: self)

    init(of identity: String, on loop: EventLoop, logger: Logger) {
        self.identity = identity
        self.loop = loop
        self.logger = logger
    }

    /// Those that have had no response for some seconds. From any thread.
    var slowCalls: [CallProgress] { calls.withLock { $0.filter { $0.isSlow() } } }

    /// A call begins. `end` must follow. From any thread.
    func begin(_ kind: CallProgress.Kind) -> CallProgress {
        let progress = CallProgress(of: kind)
        calls.withLock { $0.append(progress) }
        loop.post { [self] in schedule() }
        return progress
    }

    /// The call has its response, or none will come. From any thread.
    func end(_ progress: CallProgress) {
        calls.withLock { $0.removeAll { $0 === progress } }
        loop.post { [self] in schedule() }
    }

    /// Names nothing from here on.
    func stop() {
        loop.assertIsCurrent()
        loop.drop(deadline)
    }

    private func schedule() {
        let next = calls.withLock { [loggedUntil] in $0.first { $0.startedAt > loggedUntil }?.startedAt }
        if let next { loop.set(deadline, at: next + CallProgress.slowTime) } else { loop.drop(deadline) }
    }

    override package func due(_ deadline: Deadline) {
        loop.assertIsCurrent()
        let slow = slowCalls.filter { $0.startedAt > loggedUntil }
        for progress in slow {
            var metadata: Logger.Metadata = [
                "event": "identity.call.slow", "identity": .string(identity), "call": .string(progress.kind.rawValue),
                "age_seconds": .stringConvertible(progress.ageSeconds()),
            ]
            if let url = progress.url { metadata["url"] = .string(url) }
            logger.warning("\(progress.text())", metadata: metadata)
        }
        if let last = slow.last { loggedUntil = last.startedAt }
        schedule()
    }
}
