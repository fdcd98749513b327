/// How long an exchange with an identity service may take.
package struct CurlLimits: Equatable, Sendable {
    /// Name, connection and TLS handshake together.
    package var connect = Duration.seconds(5)
    /// Everything: finding out where the service is, waiting for a free place, and the exchange.
    package var total = Duration.seconds(30)
    package init() {}

    /// What must be left of `total` for an exchange to begin: a request that is sent and then abandoned is worse than one never sent.
    var totalLeftMin: Duration { min(connect, total / 2) }
}
