/// Whether a session call returns a new refresh token, and what a repeat of an old one means.
public enum RefreshRotation: String, CaseIterable, Sendable {
    /// A session's refresh token never changes, as in the real service.
    case none
    /// Each session call returns a new one. A repeat of the previous one within the grace time returns the same successor again.
    /// After the grace time, or once the successor has been used, a repeat is refused.
    case grace
    /// Each session call returns a new one. A repeat of an old one ends the whole session.
    case oneUse = "one_use"
}
