/// What a refresh does to the refresh token, as the identity's profile says: it decides what follows from a lost answer
/// (refresh.md 9), and whether the user's lock outlasts a failure to store.
package enum RefreshTokenRotation: Sendable, CaseIterable {
    /// The refresh token stays (App Services).
    case none
    /// Each refresh brings a new one; a repeat soon after is answered with the same successor.
    case grace
    /// Each refresh brings a new one; a repeat ends the session over there.
    case oneUse
}
