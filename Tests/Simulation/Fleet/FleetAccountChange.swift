import LanyardFoundations
import LanyardSessionInterface
import LanyardSessions

/// An operator's link or deletion in one process, from the request to its end: the real `AccountAttempt`, and what its
/// shell keeps.
struct FleetAccountChange {
    enum Kind: Equatable {
        case link(LinkCredential)
        case deletion
    }

    /// What the service says to the credential of a link.
    enum LinkCredential {
        case right
        /// A password that it refuses.
        case wrong
        /// The login of another account: it refuses every token.
        case foreign
    }

    /// What it wants of the session.
    enum Demand {
        /// The store's mark of a deletion.
        case mark
        /// A new access token.
        case renewal
        /// That the access token of a link is stored and served.
        case adoption
    }

    let kind: Kind
    let call: UserRegistry.UserCallID
    /// In real time.
    let requestedAt: Instant
    /// `SessionCoordinator.sessionID` when it was requested.
    let session: UInt64
    var attempt: AccountAttempt
    /// The clocks before the latest call.
    var startedAt = Instant.past
    var startedAtWall = WallTime(seconds: 0)
    /// The access tokens that were sent.
    var sent: [SimulatedToken] = []
    /// It has had the access token renewed, which it does once.
    var isRenewed = false
    /// What the session is to reply to; nil: the service is to respond.
    var demand: (what: Demand, ticket: UInt64)?
    /// The session's reply.
    var reply: SessionReply?

    init(_ kind: Kind, _ call: UserRegistry.UserCallID, session: UInt64, at now: Instant) {
        self.kind = kind
        requestedAt = now
        self.call = call
        self.session = session
        attempt = AccountAttempt(.accessToken, isLink: kind != .deletion)
    }
}
