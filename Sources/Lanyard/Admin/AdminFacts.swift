/// The part of `/v1/status` that describes the process.
package struct ProgramInfo: Sendable {
    /// A bound address with its listener's name in the log.
    package struct Listener: Equatable, Sendable {
        package var name: String
        package var address: String

        package init(name: String, address: String) {
            self.name = name
            self.address = address
        }
    }

    package var version: String
    package var startedAt: Instant
    package var listeners: [Listener]

    package init(version: String, startedAt: Instant, listeners: [Listener]) {
        self.version = version
        self.startedAt = startedAt
        self.listeners = listeners
    }
}
