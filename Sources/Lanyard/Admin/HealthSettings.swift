/// `health:` of the configuration (architecture.md 7.1): the listener of probes and metrics.
package struct HealthSettings: Equatable, Sendable {
    package var address = ListenerSettings.Address.tcp(host: "127.0.0.1", port: 7401)
    package init() {}
}
