/// TLS trust, client certificate and proxy of an identity's connections.
struct CurlTrust: Equatable, Sendable {
    /// Replaces the system's certificate authorities.
    var caFile: String?
    var certificateFile: String?
    var keyFile: String?
    var proxy: IdentitySettings.Proxy
    /// Restricts plain http to loopback addresses, also those of a proxy.
    var restrictsPlainHTTPToLoopback = false
}
