/// `health:` of the configuration (design §4): the listener of probes and metrics.
package struct HealthSettings: Equatable, Sendable {
    package var address = ListenerSettings.Address.tcp(host: "127.0.0.1", port: 7401)
    package init() {}
}
