/// Why no usable upstream connection came about, or why it ended: each is a `Proxy-Status` error (RFC 9209 §2.3).
package enum UpstreamError: Error, Equatable, Sendable {
    case nameNotFound
    case nameTimedOut
    case refused(CInt)
    case connectTimedOut
    /// The configured limit of connections, after `timeouts.connect` of waiting in line.
    case connectionLimit
    /// All of the route's addresses are link-local, which the route does not allow.
    case forbiddenAddress
    /// None of the addresses is loopback, and the route does not allow plain http to others.
    case plainBeyondLoopback
    /// No descriptor left, or another fault of this machine.
    case local(CInt)
}
