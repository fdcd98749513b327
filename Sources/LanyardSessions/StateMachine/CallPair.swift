import LanyardFoundations
import LanyardSessionInterface

/// The one or two calls of an attempt (refresh.md 17). The session sees one call with one result. It decides; `CallAttempt` acts.
package struct CallPair: Sendable {
    /// A call of the attempt.
    package enum Member: Equatable, Sendable {
        case first, second
        /// A former second call, in whose place another one was made.
        case replaced
    }

    /// What follows of a result.
    package enum Step: Sendable {
        /// The other call may still bring a token.
        case wait
        /// The attempt has this result, and the other call is cancelled.
        case finish(Result<Grant, IdentityError>)
        /// The attempt has ended: the result is dropped. Its tokens are wiped and never revoked, because a service may give both calls
        /// the same ones.
        case drop
    }

    private enum State {
        /// The first call alone. Goes to `both` or `ended`.
        case first
        /// Goes to `left` or `ended`.
        case both
        /// The other one has failed with this error. Goes to `ended`, or to `both` with another second call.
        case left(Member, IdentityError)
        case ended
    }

    private var state = State.first

    package init() {}

    /// A second call may still bring the token. A former one without a response is given up for it. After the service's word there is
    /// none.
    package var maySendSecond: Bool {
        switch state {
        case .first, .both: true
        case .left(.first, let error): !Self.decides(error)
        case .left, .ended: false
        }
    }

    /// The latest second call has no result yet.
    package var hasOpenSecond: Bool {
        switch state {
        case .both, .left(.second, _): true
        case .first, .left, .ended: false
        }
    }

    /// A second call begins.
    ///
    /// - Returns: `maySendSecond`.
    package mutating func beginSecond() -> Bool {
        guard maySendSecond else { return false }
        state = .both
        return true
    }

    /// The time of another second call has come, and the service has asked the one before for a pause. A first call that has had no
    /// response since is given up, so that the pause begins. After another word of the service it stays: a service that takes one call at
    /// a time may have said that of the second.
    ///
    /// - Returns: the error of the attempt; nil: the first call stays.
    package mutating func giveUpFirst() -> IdentityError? {
        guard case .left(.first, let error) = state, error.asksForPause else { return nil }
        state = .ended
        return error
    }

    /// A call has ended.
    ///
    /// - Parameter hasTime: the time of the attempt has not ended.
    package mutating func handle(_ result: Result<Grant, IdentityError>, of member: Member, hasTime: Bool) -> Step {
        guard member != .replaced else { return .drop }
        switch (state, result) {
        case (.ended, _): return .drop
        case (.both, .failure(let error)) where hasTime && !(member == .first && Self.decides(error)):
            state = .left(member == .first ? .second : .first, error)
            return .wait
        case (.left(let left, let former), .failure(let error)):
            guard left == member else { return .drop }
            state = .ended
            // What the service has said counts before a lost response, and the first call before the second.
            let (first, second) = member == .first ? (error, former) : (former, error)
            return .finish(.failure(Self.decides(first) || !Self.decides(second) ? first : second))
        case (.first, _), (.both, _), (.left, .success):
            state = .ended
            return .finish(result)
        }
    }

    /// The service has refused, or wants no call for now: the second call, which asks for the same, is not waited for. A second call's
    /// error may come from the first being open, so it waits for that.
    private static func decides(_ error: IdentityError) -> Bool {
        if error.asksForPause || error.unusedRefreshToken != nil { return true }
        return switch error.verdict {
        case .sessionDead, .credentialRefused, .gone, .unknownApp, .accountInUse, .clientRefused, .callRefused: true
        case .transient, .unknownOutcome, .credentialDoubted, .credentialUnavailable, .credentialDelayed: false
        }
    }
}

extension IdentityError {
    /// The service has asked for fewer calls: 429, 503, or a time in `Retry-After`.
    var asksForPause: Bool { status == 429 || status == 503 || retryAfter != nil }

    /// How long the service wants no call, by a response after which another call follows by itself; nil: it names no time. A refusal has
    /// times of its own.
    var pause: Duration? {
        switch verdict {
        case .transient, .unknownOutcome, .credentialDoubted: retryAfter
        case .sessionDead, .credentialRefused, .gone, .unknownApp, .credentialUnavailable, .credentialDelayed,
            .accountInUse, .clientRefused, .callRefused:
            nil
        }
    }
}
