import LanyardFoundations
import LanyardSessionInterface

/// One attempt of a session to get a token: its call, and perhaps a second one on another connection. Performs what `CallPair` decides.
/// Belongs to its runner's queue, which its owner checks.
final class CallAttempt {
    typealias Send = (CallProgress, @escaping @Sendable (Result<Grant, IdentityError>) -> Void) -> Void

    let call: SessionCall
    /// Of the first call: what status and log name.
    let progress: CallProgress
    /// Makes a call.
    private let send: Send
    private let deadline: Instant
    private var pair = CallPair()
    private var second: CallProgress?

    /// - Parameter deadline: the end of the attempt (`refresh.attempt_timeout`).
    init(_ call: SessionCall, _ progress: CallProgress, deadline: Instant, send: @escaping Send) {
        (self.call, self.progress, self.deadline, self.send) = (call, progress, deadline, send)
    }

    /// Makes the first call.
    func begin(_ reply: @escaping @Sendable (Result<Grant, IdentityError>) -> Void) { send(progress, reply) }

    /// Makes a second call. Each call is a connection of its own.
    ///
    /// - Returns: false: the attempt has ended.
    func beginSecond(_ reply: @escaping @Sendable (Result<Grant, IdentityError>) -> Void) -> Bool {
        guard pair.beginSecond() else { return false }
        let second = CallProgress(call.kind, secondUntil: deadline)
        self.second = second
        send(second, reply)
        return true
    }

    /// A call has ended.
    ///
    /// - Returns: the result of the attempt; nil: it has none yet, or has ended.
    func result(
        _ result: Result<Grant, IdentityError>, of member: CallPair.Member, at now: Instant
    ) -> Result<Grant, IdentityError>? {
        switch pair.handle(result, of: member, hasTime: now < deadline) {
        case .wait, .drop: return nil
        case .finish(let result):
            (member == .first ? second : progress)?.cancellation.cancel()
            return result
        }
    }
}
