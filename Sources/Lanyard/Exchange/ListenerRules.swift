/// Who may ask on one listener (http-rules.md 4.2, 4.4).
package struct ListenerRules: Sendable {
    package let hosts: AllowedHosts
    private let origins: [[UInt8]]
    /// Of absolute targets; TLS listeners will say `https`.
    let scheme: StaticString = "http"

    package init(hosts: AllowedHosts, allowedOrigins: [String]) {
        self.hosts = hosts
        origins = allowedOrigins.map { Array($0.utf8) }
    }

    /// Whether a browser's page of this origin may ask.
    func allows(origin: Bytes) -> Bool { origins.contains { $0.elementsEqual(origin) } }
}
