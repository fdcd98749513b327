import Glibc
import LanyardTelemetry
import TestSupport
import Testing

@testable import SystemTestSupport

/// A family that is declared and never published would be an alert that never fires.
@Suite struct MetricFamilyTests {
    /// The families that are on a page only under a condition. All others are on the page of a Lanyard with a login and a request.
    private static let conditional = [
        "lanyard_tls_handshakes": "a listener has TLS",
        "lanyard_tls_certificate_expiry_timestamp_seconds": "a listener, an upstream or an identity has a certificate",
        "lanyard_upstream_tls_failures": "TLS has prevented or ended a connection to an upstream",
        "lanyard_tokens_issued": "a broker has given a caller a token",
        "lanyard_variant_state": "a route asks for a token of its own",
        "lanyard_variant_token_expiry_timestamp_seconds": "such a token is there",
        "lanyard_variant_fetches": "such a token was asked for",
    ]

    /// The names of the families that a page declares.
    private static func families(_ lanyard: LanyardProcess) async throws -> Set<String> {
        let fields = [("Accept", "application/openmetrics-text; version=1.0.0")]
        let page = try await RawClient.ask(lanyard.health, "GET", "/metrics", fields: fields)
        return Set(try ExpositionReader(page.body, openMetrics: true).types.keys)
    }

    @Test("each declared family is on the page after a login and a request, but those with a condition")
    func published() async throws {
        let emulator = try await EmulatorProcess.start(tokens: "30m")
        let lanyard = try await LanyardProcess.start(emulator)
        try await lanyard.untilReady()
        #expect(try await lanyard.get("/protected/x").status == 200)
        let declared = Set(MetricFamily.all.map(\.name))
        var found: Set<String> = []
        // A request's duration counts when the last byte of its response is away, which its client may have before.
        try? await eventually("each declared family is on the page") {
            found = try await Self.families(lanyard)
            return declared.subtracting(found).isSubset(of: Self.conditional.keys)
        }
        #expect(declared.subtracting(found).subtracting(Self.conditional.keys).sorted() == [], "never published")
        #expect(found.subtracting(declared).sorted() == [], "not declared")
        #expect(found.intersection(Self.conditional.keys).sorted() == [], "these need no condition")
        #expect(Set(Self.conditional.keys).subtracting(declared).sorted() == [], "nothing declares these")
    }

    @Test("the families with a condition are on the page when it holds")
    func conditions() async throws {
        let upstream = try RawServer()
        let folder = try TemporaryFolder()
        let authority = TestAuthority("The listener's and the upstream's")
        let issued = authority.issue("DNS:localhost")
        let certificate = try folder.write("cert.pem", issued.certificate)
        let key = try folder.write("key.pem", issued.key)
        let otherAuthority = try folder.write("ca.pem", TestAuthority("Another authority").pem)
        let server = try TLSRelay(.server(issued), before: upstream.endpoint)
        let identity = try RawServer { _ in
            .response(
                200, "OK", fields: [("Content-Type", "application/json")],
                body: #"{"access_token":"t","token_type":"bearer","expires_in":3600}"#
            ).closing
        }
        let lanyard = try await LanyardProcess.start(
            """
            identities: {corp: {oauth2: {endpoints: {token: "http://\(identity.endpoint)/t"}, client_id: c}}}
            users: {robot: {identity: corp, login: {client_credentials: {}}}}
            brokers:
              - address: unix:\(folder.file("broker.sock"))
                callers: [{uids: [\(geteuid())], users: [robot], audiences: [b]}]
            routes:
              - name: all
                user: robot
                token: {audience: a}
                upstream: "https://localhost:\(server.endpoint.port)"
                tls: {ca_file: \(otherAuthority)}
              # The first route's token is the session's own: this one is fetched besides.
              - {name: other, match: {path: /other}, user: robot, token: {audience: b}, upstream: "http://127.0.0.1:1"}

            """, listener: "address: \"127.0.0.1:0\", tls: {certificate_file: \(certificate), key_file: \(key)}")
        try await lanyard.untilReady()
        let client = try TLSRelay(.client, before: lanyard.data)
        let status = try RawClient(client.endpoint).exchange("GET", "/", host: "\(lanyard.data)").status
        #expect(status == 502)
        let grant = try await RawClient.ask(.unix(folder.file("broker.sock")), "GET", "/v1/token")
        #expect(grant.status == 200, "\(grant.bodyText)")
        let found = try await Self.families(lanyard)
        #expect(Set(Self.conditional.keys).subtracting(found).sorted() == [])
    }
}
