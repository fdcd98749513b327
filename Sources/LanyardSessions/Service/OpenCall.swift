import LanyardFoundations
import LanyardSessionInterface
import LanyardSettings
import Logging

/// A user's call that has no response yet, and since when calls have failed. A slow call is logged once. Belongs to the queue of its loop.
final class OpenCall {
    private(set) var progress: CallProgress?
    /// The latest call with the second one that it may have, until there is a result.
    var attempt: CallAttempt?
    /// What has come before the session allowed the call to be sent: its response in place of the connection.
    private var held: Held?
    private let loop: EventLoop
    private let logger: Logger
    /// Since when each call has failed; nil: the latest one has succeeded.
    private var failingSince: WallTime?
    private lazy var timer = SessionTimer(on: loop) { [unowned self] in logSlowCall() }

    struct Held {
        let result: Result<Grant, IdentityError>
        let call: SessionCall
        let progress: CallProgress
    }

    init(on loop: EventLoop, logger: Logger) {
        self.loop = loop
        self.logger = logger
    }

    /// - Parameters:
    ///   - gate: holds the call's body back; nil: it is sent as soon as the service is connected.
    ///   - machine: whose settings say how much time the call has, and a request for the service's place before it.
    func begin(
        _ kind: SessionCall.Kind, gate: SendGate?, _ call: SessionCall, of machine: SessionCoordinator
    ) -> CallProgress {
        loop.assertIsCurrent()
        let settings = machine.context.settings
        let progress = CallProgress(
            kind, gate: gate, timeout: settings.attemptTimeout, repeatsPlaceAfter: settings.secondCallAfter,
            inPlaceOf: machine.refusedToken(of: call))
        held = nil
        self.progress = progress
        timer.set(at: progress.startedAt + CallProgress.slowTime)
        return progress
    }

    /// The session stores that the call is about to be sent, and learns of its result afterwards.
    ///
    /// - Returns: whether the result is held back until then.
    func hold(_ result: Result<Grant, IdentityError>, _ call: SessionCall, _ progress: CallProgress) -> Bool {
        loop.assertIsCurrent()
        guard self.progress === progress, progress.gate?.isAwaited == true else { return false }
        held = Held(result: result, call: call, progress: progress)
        return true
    }

    /// The call may be sent.
    ///
    /// - Returns: its result, if it has come already.
    func send() -> Held? {
        loop.assertIsCurrent()
        progress?.gate?.open()
        defer { held = nil }
        return held
    }

    /// The call is given up before it was sent. Its result will not be told.
    ///
    /// - Returns: false: it has ended already.
    func cancel() -> Bool {
        loop.assertIsCurrent()
        guard let progress, let gate = progress.gate else { return false }
        gate.cancel()
        held = nil
        end(progress)
        return true
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
    func failure(_ error: IdentityError?, of user: String, at now: WallTime) -> SessionStatus.Failure? {
        loop.assertIsCurrent()
        failingSince = error == nil ? nil : failingSince ?? now
        guard let error, let failingSince else { return nil }
        return SessionStatus.Failure(
            message: error.operatorMessage, remedy: error.remedy(for: user), cause: error.cause,
            since: failingSince)
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
