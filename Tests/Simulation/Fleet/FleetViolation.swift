/// A promise that a simulated world has seen broken.
package struct FleetViolation: Sendable, CustomStringConvertible {
    package enum Promise: String, CaseIterable, Sendable {
        case expiredToken = "an expired token is never handed out"
        case singleFlight = "one refresh in flight per session"
        case storm = "calls per hour are bounded"
        case retryAfter = "the service's Retry-After is honoured"
        case neededLife = "a session that can live never ends"
        case revival = "a live session has a token soon after the last fault"
        case persisted = "what was published was persisted, or shown as store_failing"
        case lostRotation = "no user's rotation is lost to another user's write"
        case sameAfterCrash = "after a crash logged in where it was"
        case oldToken = "no old refresh token beyond the single retry of refresh-outcomes.md 9"
        case lastTry =
            "a last try is made once, when every access token has ended and no process has a newer refresh token"
        case usedMark = "a refresh token that the disk says was sent is not sent again"
        case needlessLogin = "no login without a cause"
        case refusalHolds = "a refused user is served nowhere"
        case logoutHolds = "a logout holds until the next login"
        case openIntent = "an intent ends with its answer"
        case readable = "the store can always be read"
        case progress = "deadlines that were told do not stay due"
        case revokedLive = "no session that the store holds is revoked"
        case endedRevoked = "a session that a logout takes out of the store is revoked"
        case fedToken = "a token that another program renews is served while it can be read, and no longer"
        case rightUser = "a token goes only on its own user's requests"
        case oneAccount = "tokens of two accounts are never those of one for the shards"
        case spentOnce = "a credential that was refused, or has served its only login, is not sent again"
        case newCredential = "a new credential in the file is tried at once"
        case linkedSession = "a link continues with the session that it was made with"
        case accountCall = "a call about an account whose token is refused is made once more, with another token"
        case deletionHolds = "nothing is left that logs in to a deleted account"
        case patience = "a request waits for a renewal that has just begun"
        case variantAudience = "a variant's token is served for its own audience alone"
        case oneLane = "the calls with one session's refresh token are made one after another"
        case rotationStored = "a new refresh token is stored before the next call"
        case variantRenewed = "a variant that requests use is renewed before its token ends"
        case unusedVariant = "a variant that no request uses is not renewed for ever"
        case droppedVariant = "no token of a removed variant or of an ended session is served"
        case variantRefusal = "a request is refused for its variant only after the variant's fetch has failed"
        case variantGeneration = "a variant's new token has a higher generation"
        case drained = "a process that is about to end begins no call, and stores what it has"
    }

    package var promise: Promise
    /// The world that shows it: the same plan shows it again.
    package var plan: FleetPlan
    /// What shows it, in words; no secret.
    package var words: String

    package var description: String {
        let kind =
            (plan.isGuided ? " (guided)" : "") + (plan.changesAccounts ? " (accounts)" : "")
            + (plan.hasVariants ? " (variants)" : "")
        return "seed \(plan.seed)\(kind), lifetime \(plan.lifetime): \(promise.rawValue): \(words)"
    }
}
