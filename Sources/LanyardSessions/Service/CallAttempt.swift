import LanyardFoundations
import LanyardSessionInterface

/// One attempt of a session to get a token: its call, and perhaps a second one on another connection, which is made anew while there is
/// no response. Performs what `CallPair` decides.
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
    /// The latest one.
    private var second: CallProgress?
    /// A call with less time left would not be sent.
    private static let timeMin = Duration.seconds(6)

    /// - Parameter deadline: the end of the attempt (`refresh.attempt_timeout`).
    init(_ call: SessionCall, _ progress: CallProgress, deadline: Instant, send: @escaping Send) {
        (self.call, self.progress, self.deadline, self.send) = (call, progress, deadline, send)
    }

    /// Makes the first call.
    func begin(_ reply: @escaping @Sendable (Result<Grant, IdentityError>) -> Void) { send(progress, reply) }

    /// A second call may still bring the token.
    var maySendSecond: Bool { pair.maySendSecond }
    /// The latest second call has no result yet.
    var hasOpenSecond: Bool { pair.hasOpenSecond }

    /// Makes a second call, in place of the one before it. Each call is a connection of its own. The end of the first call ends it, too.
    func beginSecond(_ reply: @escaping @Sendable (Result<Grant, IdentityError>, _ call: CallProgress) -> Void) {
        guard pair.beginSecond() else { return }
        second?.cancellation.cancel()
        let now = Instant.now
        let second = CallProgress(call.kind, startedAt: now, secondUntil: max(deadline, now + Self.timeMin))
        self.second = second
        send(second) { reply($0, second) }
    }

    /// The time of another second call has come. The first one is cancelled if the service wants a pause.
    ///
    /// - Returns: the error of the attempt; nil: the first call stays.
    func giveUpFirst() -> IdentityError? {
        guard let error = pair.giveUpFirst() else { return nil }
        progress.cancellation.cancel()
        return error
    }

    /// A call has ended.
    ///
    /// - Returns: the result of the attempt; nil: it has none yet, or has ended.
    func result(
        _ result: Result<Grant, IdentityError>, of ended: CallProgress, at now: Instant
    ) -> Result<Grant, IdentityError>? {
        let member: CallPair.Member = ended === progress ? .first : ended === second ? .second : .replaced
        switch pair.handle(result, of: member, hasTime: now < deadline) {
        case .wait, .drop: return nil
        case .finish(let result):
            (member == .first ? second : progress)?.cancellation.cancel()
            return result
        }
    }
}
