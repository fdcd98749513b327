/// What a refresh does to the refresh token, as the identity's profile says. It decides what follows from a lost
/// response (refresh.md 9), and whether the user's lock is kept after a failed write.
package enum RefreshTokenRotation: Sendable, CaseIterable {
    /// The refresh token stays (App Services).
    case none
    /// Each refresh brings a new token; a repetition soon after gets the same successor.
    case grace
    /// Each refresh brings a new token; a repetition ends the session at the service.
    case oneUse
}
