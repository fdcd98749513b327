/// Whether a session call brings a new refresh token, and what a repeat of an old one means.
public enum RefreshRotation: String, CaseIterable, Sendable {
    /// As the real service: a session's refresh token never changes.
    case none
    /// Each session call brings a new one. The one before it, repeated within the grace time, brings the same successor once more;
    /// afterwards, and once the successor has been used, it is refused.
    case grace
    /// Each session call brings a new one. Whoever repeats an old one ends the whole session.
    case oneUse = "one_use"
}
