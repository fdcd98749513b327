/// Which hosts and origins requests on one listener may name (http-rules.md 4.2, 4.4).
package struct ListenerRules: Sendable {
    package let hosts: AllowedHosts
    private let origins: [[UInt8]]
    /// The scheme of absolute targets.
    let scheme: StaticString = "http"

    package init(hosts: AllowedHosts, allowedOrigins: [String]) {
        self.hosts = hosts
        origins = allowedOrigins.map { Array($0.utf8) }
    }

    /// Whether requests of web pages of this origin are allowed.
    func allows(origin: Bytes) -> Bool { origins.contains { $0.elementsEqual(origin) } }
}
