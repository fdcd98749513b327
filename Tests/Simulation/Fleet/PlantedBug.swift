/// A mistake that a run can be told to make in the hands that carry out what the machines decide, or in what they stand on: each must be
/// found.
package enum PlantedBug: String, CaseIterable, Sendable {
    /// A new token is served before the store has it.
    case publishBeforePersist = "publish-before-persist"
    /// A file's bytes may be lost after the rename.
    case noFileSync = "no-file-sync"
    /// The rename itself may be lost.
    case noFolderSync = "no-folder-sync"
    /// No call leaves a trace before it is made.
    case noIntent = "no-intent"
    /// A process that wants a user's lock or the store's has it.
    case lockAlwaysGranted = "lock-always-granted"
    /// What another process wrote since is not looked at.
    case noReadAfterLock = "no-read-after-lock"
    /// A write puts back what the process believes of all users.
    case wholeFileOverwrite = "whole-file-overwrite"
    /// The old refresh token is sent although a new one came which could not be stored.
    case oldTokenAfterFailedSave = "old-token-after-failed-save"
    /// A shard continues with a token after its end.
    case expiredTokenServed = "expired-token-served"
    /// The next attempt after a failure is made at once.
    case noBackOff = "no-back-off"
    case retryAfterIgnored = "retry-after-ignored"
    /// A refusal leaves what it has ended in the store.
    case refusalKeepsSession = "refusal-keeps-session"
    /// A late response is stored although the user has logged out.
    case lateResponseRevives = "late-response-revives"
    case clockJumpIgnored = "clock-jump-ignored"
    /// A response leaves its intent open.
    case intentNeverSettled = "intent-never-settled"
    /// A one-use refresh token is repeated after an unknown outcome.
    case oneUseRetried = "one-use-retried"
    /// A refresh token is sent while the service is being connected, before its intent is stored.
    case sentUnprepared = "sent-unprepared"
    /// The former refresh token is repeated after the service's grace period.
    case graceWindowIgnored = "grace-window-ignored"
    /// The store does not keep that a session's refresh token has rotated.
    case rotationForgotten = "rotation-forgotten"
    /// A definite response for one that can pass: the session is asked to live on the wrong verdict.
    case outageIsDeath = "outage-is-death"
    /// A token lives as long as it pleases from its arrival, not from the moment before its request.
    case lifeFromArrival = "life-from-arrival"
    /// The store is read for calls only.
    case noLook = "no-look"
    /// A refresh's response is taken for another session's, and the current one is ended.
    case revokesOwn = "revokes-own"
    /// A logout forgets the session that another process has stored.
    case endedForgotten = "ended-forgotten"
    /// A token that can no longer be read is served on.
    case unreadServed = "unread-served"
    /// The response of another user's call.
    case responsesSwapped = "responses-swapped"
    /// The guard lets a credential pass that has served its only login.
    case spentSentAgain = "spent-sent-again"
    /// A login does not record that its credential is spent.
    case spentForgotten = "spent-forgotten"
    /// The file of a credential is not watched.
    case fileChangeIgnored = "file-change-ignored"
    /// The token of a link is taken into whatever session is current when it comes.
    case linkOfAnotherSession = "link-of-another-session"
    /// A link whose token is refused is given up.
    case refusedLinkGivenUp = "refused-link-given-up"
    /// A link whose token is refused is made again with the same one.
    case refusedLinkRepeated = "refused-link-repeated"
    /// The store does not learn of a deletion before the service does.
    case deletionUnmarked = "deletion-unmarked"
    /// A refresh takes the mark of a deletion away.
    case deletionMarkLost = "deletion-mark-lost"
    /// The session of a deleted account is not ended.
    case deletedSessionKept = "deleted-session-kept"
    /// The audience of a variant's token is not compared.
    case wrongAudienceServed = "wrong-audience-served"
    /// A variant's token is published for another one.
    case variantsSwapped = "variants-swapped"
    /// A variant is fetched while another one is.
    case secondLane = "second-lane"
    /// The store does not take the refresh token that a fetch has brought.
    case fetchedRotationUnstored = "fetched-rotation-unstored"
    /// A shard keeps the token of a variant that a reload has removed.
    case removedVariantServed = "removed-variant-served"
    /// A shard keeps the tokens of variants when their session ends.
    case endedVariantServed = "ended-variant-served"
    /// The uses of variants are not counted.
    case usesUncounted = "uses-uncounted"
    /// Each count of a variant's uses has grown.
    case usesInvented = "uses-invented"
    /// Some tokens of variants do not reach the shards.
    case variantPublicationLost = "variant-publication-lost"
    /// The tokens of variants all have one generation.
    case variantGenerationReused = "variant-generation-reused"
    /// The sessions of a process are not told that it is about to end.
    case drainIgnored = "drain-ignored"

    /// The check that finds a mistake about variants, which shows only where routes ask for them; nil: another mistake.
    package var promise: FleetViolation.Promise? {
        switch self {
        case .wrongAudienceServed, .variantsSwapped: .variantAudience
        case .secondLane: .oneLane
        case .fetchedRotationUnstored: .rotationStored
        case .removedVariantServed, .endedVariantServed: .droppedVariant
        case .usesUncounted: .variantRenewed
        case .usesInvented: .unusedVariant
        case .variantPublicationLost: .variantRefusal
        case .variantGenerationReused: .variantGeneration
        case .drainIgnored: .drained
        default: nil
        }
    }

    /// It shows only where operators change accounts.
    package var needsAccounts: Bool {
        switch self {
        case .spentSentAgain, .spentForgotten, .fileChangeIgnored, .linkOfAnotherSession, .refusedLinkGivenUp,
            .refusedLinkRepeated, .deletionUnmarked, .deletionMarkLost, .deletedSessionKept:
            true
        default: false
        }
    }
}
