/// `limits:` of the configuration (architecture-control.md 4.2, http-connections.md 8): per process unless a line says otherwise.
package struct LimitSettings: Equatable, Sendable {
    /// How large a field section may be.
    package struct SectionSize: Equatable, Sendable {
        /// One field may fill it.
        package var bytesMax = 512 << 10
        package var fieldsMax = 1024
    }

    /// Client connections at once. Beyond it the connection that has waited longest for a request is closed; without one, 503.
    package var connectionsMax = 4096
    /// Client connections of one peer address; nil is no limit.
    package var connectionsPerPeerMax: Int?
    /// Requests on one client connection; nil is no limit.
    package var requestsPerConnectionMax: Int?
    /// Bytes of a request's field section, and of its trailer section (431 beyond). One field may fill it.
    package var headerBytesMax = 64 << 10
    /// Fields of a request, and of its trailer section (431 beyond).
    package var headerFieldsMax = 128
    /// Of connections of HTTP/2.
    package var http2 = HTTP2Settings()
    /// Of a response's field section, and of its trailer section (502 beyond).
    package var responseHeader = SectionSize()
    /// Bytes of the certificates of a TLS peer, and of an upstream's request for a certificate.
    package var certificateBytesMax = 32 << 10
    /// TLS handshakes of clients in progress, for each shard. For another one the oldest is closed.
    package var handshakesMax = 512
    /// Bytes of a request line (414 beyond).
    package var requestLineBytesMax = 16 << 10
    /// A whole request head, from its first byte (408 beyond).
    package var headerTimeout = Duration.seconds(10)
    /// A kept-alive client connection without a byte. Longer than clients keep idle connections (Go, hyper and cloudflared: 90 s): if
    /// both sides close at the same time, the client's next request can meet the close.
    package var idleTimeout = Duration.seconds(120)
    /// Probes of TCP connections without traffic, of clients and upstreams.
    package var keepAlive = KeepAliveSettings()
    /// Requests that wait for a token or an upstream connection, all users and routes together (503 `overloaded` beyond).
    package var parkedRequestsMax = 1024
    /// All buffers of all shards together.
    package var bufferBytesMax = 64 << 20
    /// Upstream connections of all routes, in use or idle. Beyond it idle ones are closed. Not a key: it follows from the limit of
    /// descriptors.
    package var upstreamConnectionsMax = Int.max

    package init() {}
}
