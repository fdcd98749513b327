import LanyardFoundations
import Testing

@testable import LanyardRequestPath

@Suite("The order of an upstream's addresses")
struct ConnectorTests {
    @Test(
        "IPv6 and IPv4 are tried in turn, each in its given order, and the first address stays the first",
        arguments: [
            ("::1 ::2 ::3 10.0.0.1 10.0.0.2", "::1 10.0.0.1 ::2 10.0.0.2 ::3"),
            ("10.0.0.1 10.0.0.2 ::1 ::2 ::3", "10.0.0.1 ::1 10.0.0.2 ::2 ::3"),
            ("::1 10.0.0.1 ::2 10.0.0.2", "::1 10.0.0.1 ::2 10.0.0.2"),
            ("10.0.0.1 10.0.0.2 10.0.0.3", "10.0.0.1 10.0.0.2 10.0.0.3"), ("::2 ::1", "::2 ::1"), ("", ""),
        ])
    func families(_ given: String, _ expected: String) throws {
        func addresses(_ hosts: String) throws -> [SocketAddress] {
            try hosts.split(separator: " ").map { try #require(SocketAddress(host: String($0), port: 1)) }
        }
        #expect(Connector.alternating(try addresses(given)) == (try addresses(expected)))
    }
}
