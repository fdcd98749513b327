/// How TCP connections without traffic are probed (tcp(7), http-connections.md 9.5): `limits.keepalive_…` of the configuration.
///
/// By default a peer that has vanished is noticed after 55 s: within a minute, and an outage of the network of 25 s ends nothing.
package struct KeepAliveSettings: Equatable, Sendable {
    /// Time without a byte before the first probe, in whole seconds; nil: no probes.
    package var idle: Duration? = .seconds(30)
    /// Time between two probes, in whole seconds.
    package var interval = Duration.seconds(5)
    /// Probes without a reply; then the connection has failed.
    package var probesMax = 5

    package init() {}
}
