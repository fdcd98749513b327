/// Time limits of an exchange with an identity service.
package struct CurlLimits: Equatable, Sendable {
    /// Name resolution, connection and TLS handshake together.
    package var connect = Duration.seconds(5)
    /// The whole exchange: the location request, the wait for a free slot, and the transfer.
    package var total = Duration.seconds(30)
    package init() {}

    /// The part of `total` that must be left when a transfer starts: a request that is sent and then abandoned is worse than one never
    /// sent.
    var totalLeftMin: Duration { min(connect, total / 2) }
}
