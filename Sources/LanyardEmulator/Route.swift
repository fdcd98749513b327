import FlyingFox

/// The routes with calls that are counted, delayed and failed. The raw value is the name in `/emulator/…`.
enum Route: String, CaseIterable, Sendable {
    case location, register, login, refresh, logout, profile, protected
    /// Every other path under `/api`.
    case other

    private static let session = "/api/client/v2.0/auth/session"

    /// The route of a request; nil for `/emulator/…` and for unknown paths.
    init?(_ method: HTTPMethod, _ path: String) {
        switch (method, path) {
        case (_, "/protected"): self = .protected
        case _ where path.hasPrefix("/protected/"): self = .protected
        case (.POST, Self.session): self = .refresh
        case (.DELETE, Self.session): self = .logout
        case (.GET, "/api/client/v2.0/auth/profile"): self = .profile
        case (.GET, _) where path.hasSuffix("/location"): self = .location
        case (.POST, _) where path.hasSuffix("/local-userpass/register"): self = .register
        case (.POST, _) where path.hasSuffix("/login"): self = .login
        case _ where path.hasPrefix("/api/"): self = .other
        default: return nil
        }
    }
}
