import LanyardFoundations
import LanyardSessionInterface
import Logging

/// A user's call that has no response yet, and since when calls have failed. A slow call is logged once. Belongs to the queue of its loop.
final class OpenCall {
    private(set) var progress: CallProgress?
    private let loop: EventLoop
    private let logger: Logger
    /// Since when each call has failed; nil: the latest one has succeeded.
    private var failingSince: WallTime?
    private lazy var timer = SessionTimer(on: loop) { [unowned self] in logSlowCall() }

    init(on loop: EventLoop, logger: Logger) {
        self.loop = loop
        self.logger = logger
    }

    func begin(_ kind: SessionCall.Kind) -> CallProgress {
        loop.assertIsCurrent()
        let progress = CallProgress(kind)
        self.progress = progress
        timer.set(at: progress.startedAt + CallProgress.slowTime)
        return progress
    }

    /// A response has come. It may be that of an earlier call.
    func end(_ progress: CallProgress) {
        loop.assertIsCurrent()
        guard self.progress === progress else { return }
        self.progress = nil
        timer.set(at: .never)
    }

    /// What the status says of the latest error.
    ///
    /// - Parameter error: nil: the latest call has succeeded.
    func failure(_ error: IdentityError?, at now: WallTime) -> SessionStatus.Failure? {
        failingSince = error == nil ? nil : failingSince ?? now
        guard let error, let failingSince else { return nil }
        return SessionStatus.Failure(message: error.message, since: failingSince)
    }

    /// Nothing is logged any more. Call it before the last reference goes.
    func drop() {
        loop.assertIsCurrent()
        progress = nil
        timer.drop()
    }

    /// Long before the call's own time limit.
    private func logSlowCall() {
        timer.set(at: .never)
        guard let progress else { return }
        var metadata: Logger.Metadata = [
            "event": "session.call.slow", "call": .string(progress.kind.rawValue),
            "age_seconds": .stringConvertible(progress.ageSeconds()),
        ]
        if let url = progress.url { metadata["url"] = .string(url) }
        logger.warning("\(progress.text())", metadata: metadata)
    }
}
