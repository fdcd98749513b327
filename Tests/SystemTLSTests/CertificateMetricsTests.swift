import Foundation
import TestSupport
import Testing

@testable import SystemTestSupport

/// `lanyard_tls_certificate_expiry_timestamp_seconds{which}`: of listeners, upstreams and identity services.
@Suite struct CertificateMetricsTests {
    private static let authority = TestAuthority("All certificates")
    private static let day = 86_400

    /// Writes a certificate that ends after so many days, with its key. Files that exist are replaced.
    private static func write(_ name: String, days: Int, to folder: TemporaryFolder) throws {
        let issued = authority.issue("DNS:localhost", to: days * day)
        try ListenerTLSBench.replace("\(name).pem", by: issued.certificate, in: folder)
        try ListenerTLSBench.replace("\(name).key", by: issued.key, in: folder)
    }

    /// In how many days each certificate ends, rounded.
    private static func ends(_ lanyard: LanyardProcess) async throws -> [String: Int] {
        let page = try await RawClient.ask(lanyard.health, "GET", "/metrics").body
        let samples = try ExpositionReader(page, openMetrics: false).samples
            .filter { $0.name == "lanyard_tls_certificate_expiry_timestamp_seconds" }
        let now = Date().timeIntervalSince1970
        return Dictionary(
            uniqueKeysWithValues: samples.map {
                ($0.labels["which"] ?? "", Int((($0.value - now) / Double(day)).rounded()))
            })
    }

    @Test("a listener's certificate and the client certificates of a route and an identity; changed files, a reload")
    func which() async throws {
        let (folder, sockets) = (try TemporaryFolder(), try TemporaryFolder())
        for (name, days) in [("listener", 10), ("route", 20), ("identity", 30)] {
            try Self.write(name, days: days, to: folder)
        }
        func keys(_ name: String) -> String {
            "tls: {certificate_file: \(folder.file("\(name).pem")), key_file: \(folder.file("\(name).key"))}"
        }
        let admin = RawEndpoint.unix(sockets.file("admin.sock"))
        let identity = "app_services: {app_id: a, base_url: \"https://localhost:1\"}"
        func sections(_ identityKeys: String, _ routeKeys: String) -> String {
            """
            identities: {demo: {\(identity)\(identityKeys)}}
            users: {alice: {identity: demo, login: {anonymous: {}}}}
            routes: [{name: orders, upstream: "https://localhost:1"\(routeKeys)}]
            """
        }
        let listener = "address: \"127.0.0.1:0\", \(keys("listener"))"
        let clock = try TestClock()
        let lanyard = try await LanyardProcess.start(
            sections(", " + keys("identity"), ", " + keys("route")), listener: listener,
            admin: "{address: \"\(admin)\"}", under: clock)
        let own = "listener \(lanyard.data)"
        try await eventually("all files are read") { try await Self.ends(lanyard).count == 3 }
        #expect(try await Self.ends(lanyard) == [own: 10, "route orders": 20, "identity demo": 30])

        for (name, days) in [("listener", 40), ("route", 50), ("identity", 60)] {
            try Self.write(name, days: days, to: folder)
        }
        try await clock.pass(LanyardProcess.fileDelay)
        #expect(try await Self.ends(lanyard) == [own: 40, "route orders": 50, "identity demo": 60])

        try lanyard.folder.write(
            "lanyard.yaml",
            """
            listeners: [{\(listener)}]
            health: {address: "127.0.0.1:0"}
            admin: {address: "\(admin)"}
            \(sections("", ""))
            log: {access: false}

            """)
        let response = try await RawClient.ask(admin, "POST", "/v1/reload")
        #expect(response.status == 200, "\(response.bodyText)")
        #expect(try await Self.ends(lanyard) == [own: 40])
    }
}
