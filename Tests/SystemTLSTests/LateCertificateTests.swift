import TestSupport
import Testing

@testable import SystemTestSupport

/// Upstreams that ask for the client certificate after the handshake, for some paths only (http-connections.md 16.8).
@Suite struct LateCertificateTests {
    private static let authority = TestAuthority("Late")

    /// The keys of a route that shows a certificate.
    private static func certificate(_ folder: TemporaryFolder, of authority: TestAuthority) throws -> String {
        let own = authority.issue("DNS:lanyard.example", purpose: "clientAuth")
        try folder.write("own.pem", own.certificate)
        try folder.write("own.key", own.key)
        return ", certificate_file: \(folder.file("own.pem")), key_file: \(folder.file("own.key"))"
    }

    @Test(
        "16.8 With TLS 1.3 the route's certificate is shown when it is asked for",
        .enabled(if: PythonProcess.isInstalled, "needs Python"))
    func python() async throws {
        let upstream = try await TLSUpstream.start(mode: "later")
        let folder = try TemporaryFolder()
        let own = try Self.certificate(folder, of: TLSUpstream.authority)
        let lanyard = try await LanyardProcess.start(
            before: upstream.url, route: "tls: {ca_file: \(upstream.folder.file("ca.pem"))\(own)}")
        let client = try RawClient(lanyard.data)
        let host = lanyard.data.description
        #expect(try client.exchange("GET", "/", host: host).status == 200)
        // On one connection, more often than anything that a connection may be sent without a reason.
        for _ in 0..<12 {
            try client.send("GET /later HTTP/1.1\r\nHost: \(host)\r\n\r\n")
            var response = try client.response()
            while response.status == 102 { response = try client.response() }
            #expect(response.status == 200)
            #expect(response.bodyText.count > 8, "\(response.bodyText)")
        }
        let body = [UInt8](repeating: 98, count: 100_000)
        #expect(try client.exchange("POST", "/", host: host, body: body).status == 200)
    }

    @Test(
        "16.8 Without a certificate the upstream is told that none can be asked for late, and responds as it likes",
        .enabled(if: PythonProcess.isInstalled, "needs Python"))
    func pythonWithout() async throws {
        let upstream = try await TLSUpstream.start(mode: "later")
        let lanyard = try await LanyardProcess.start(before: upstream.url, route: upstream.trust)
        #expect(try await lanyard.get("/later").bodyText == "cannot ask")
    }

    private static let late = "<Location /late>\nSSLVerifyClient require\nSSLVerifyDepth 2\n</Location>"

    private func lanyard(_ apache: ApacheProcess, own: String) async throws -> LanyardProcess {
        try await .start(
            before: apache.url,
            route: "tls: {ca_file: \(apache.folder.file("ca.pem")), server_name: localhost\(own)}")
    }

    @Test(
        "16.8 Apache with SSLVerifyClient in a Location, TLS 1.3",
        .enabled(if: ApacheProcess.isInstalled, "needs Apache with mod_ssl (apt-get install apache2-bin)"))
    func apache() async throws {
        let apache = try await ApacheProcess.start(Self.authority, "SSLProtocol TLSv1.3\n" + Self.late)
        let lanyard = try await lanyard(apache, own: try Self.certificate(apache.folder, of: Self.authority))
        for _ in 0..<3 {
            #expect(try await lanyard.get("/open").bodyText == "open")
            let late = try await lanyard.get("/late/file")
            #expect(late.status == 200, "\(apache.errorLog)")
            #expect(late.bodyText == "late")
            #expect((late["X-Serial"] ?? "").count > 8)
        }
        let without = try await self.lanyard(apache, own: "")
        #expect(try await without.get("/late/file").status == 403)
        #expect(try await without.get("/open").bodyText == "open")
    }

    @Test(
        "16.8 Apache with SSLVerifyClient in a Location, TLS 1.2: refused with a cause of its own in problem, log and metric",
        .enabled(if: ApacheProcess.isInstalled, "needs Apache with mod_ssl (apt-get install apache2-bin)"))
    func renegotiation() async throws {
        let apache = try await ApacheProcess.start(Self.authority, "SSLProtocol TLSv1.2\n" + Self.late)
        let lanyard = try await lanyard(apache, own: try Self.certificate(apache.folder, of: Self.authority))
        #expect(try await lanyard.get("/open").bodyText == "open")
        let refused = try await lanyard.get("/late/file")
        #expect(refused.status == 502)
        #expect(refused["Proxy-Status"]?.contains("error=tls_protocol_error") == true)
        #expect(refused.bodyText.contains("renegotiate TLS 1.2"), "\(refused.bodyText)")
        let line = try await lanyard.process.event("upstream.tls.failed")
        #expect(line["reason"].string == "renegotiation_refused")
        let metrics = try await RawClient.ask(lanyard.health, "GET", "/metrics").bodyText
        #expect(metrics.contains("lanyard_upstream_tls_failures_total{route=\"all\",reason=\"renegotiation_refused\"}"))
        #expect(try await lanyard.get("/open").bodyText == "open")
    }
}
