/// Whom an identity's connections trust, what they show of themselves, and by which way they go.
struct CurlTrust: Equatable, Sendable {
    /// Replaces the system's authorities.
    var caFile: String?
    var certificateFile: String?
    var keyFile: String?
    var proxy: IdentitySettings.Proxy
    /// Plain http is for loopback addresses only, those of a proxy included.
    var restrictsPlainHTTPToLoopback = false
}
