import LanyardFoundations
import LanyardSessionInterface

/// One call on its way: from a session to the service and back.
struct FleetCall {
    var process: Int
    var life: Int
    var user: Int
    /// nil: a call about an account, or a revocation, whose response is not waited for.
    var call: SessionCall?
    /// nil: no call about an account.
    var account: FleetAccountChange.Kind?
    /// When an operator asked for the call about an account, in real time.
    var requestedAt = Instant.past
    /// nil: a login. Calls about accounts carry an access token.
    var token: SimulatedToken?
    /// Whose token it fetches, by place; nil: the plain one.
    var variant: Int?
    /// Which password the login brings.
    var password = 0
    /// An operator gave it.
    var isGiven = false
    /// The recorded credential that the guard has held back.
    var heldBack: CredentialFingerprint?
    var outcome: FleetCondition.Outcome
    /// What the service said, once it was reached.
    var response: FleetService.Response?
    /// It was prepared, and the service could not be connected.
    var isUnsent = false
    /// The session does not wait for it any more.
    var isGivenUp = false
    /// How often it is still to be heard of.
    var eventsToCome = 0
    /// The process has heard of it.
    var isCompleted = false
}
