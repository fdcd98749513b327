import Foundation
import TestSupport
import Testing

@testable import SystemTestSupport

/// nginx with a certificate of a private authority behind the built binary.
@Suite(.enabled(if: NginxProcess.isInstalled, "needs nginx")) struct NginxTLSTests {
    private static let authority = TestAuthority("A private authority")
    private static let token = "walk-token-1~a_b"

    /// nginx and the port where it speaks TLS.
    private struct API {
        let folder: TemporaryFolder
        let nginx: NginxProcess
        let gate: FaultGate

        var url: String { "https://localhost:\(gate.endpoint.port)" }
    }

    /// An API that demands the bearer field, and says how it was called.
    ///
    /// nginx listens on a unix socket, since it cannot say which free port it took; a gate that passes everything has the port.
    private static func start(_ keys: String = "") async throws -> API {
        let folder = try TemporaryFolder()
        let issued = authority.issue()
        try folder.write("ca.pem", authority.pem)
        try folder.write("leaf.pem", issued.certificate)
        try folder.write("leaf.key", issued.key)
        try folder.write("token", token)
        var random = SeededGenerator(17)
        try Data(random.bytes(3 << 20)).write(to: URL(fileURLWithPath: folder.file("large")))
        try FileManager.default.createDirectory(atPath: folder.file("store"), withIntermediateDirectories: true)
        let nginx = try await NginxProcess.start(
            """
            listen unix:\(folder.file("tls.sock")) ssl;
            ssl_certificate \(folder.file("leaf.pem")); ssl_certificate_key \(folder.file("leaf.key"));
            ssl_session_cache shared:all:1m;
            \(keys.replacing("FOLDER", with: folder.path))
            root \(folder.path);
            if ($http_authorization != "Bearer \(token)") { return 401 "no token"; }
            location /large { }
            location /store/ { dav_methods PUT; client_max_body_size 8m; }
            location / { return 200 "$ssl_protocol $ssl_session_reused $ssl_server_name $request_uri $ssl_client_verify"; }
            """, in: folder)
        return API(folder: folder, nginx: nginx, gate: try FaultGate(before: .unix(folder.file("tls.sock"))))
    }

    /// The flags of the set-up before an `https` API in docs/use/configuration.md, whose lines are these.
    private static func pageLines() throws -> [String] {
        let page = try String(contentsOfFile: "\(Products.root)/docs/use/configuration.md", encoding: .utf8)
        let lines = page.split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
        let start = try #require(lines.firstIndex { $0.hasPrefix("lanyard run --upstream https://") })
        let end = try #require(lines[start...].firstIndex { !$0.hasSuffix("\\") })
        return lines[start...end].map { $0.trimmingCharacters(in: [" ", "\\"]) }
    }

    @Test("five lines of flags, as a page has them, put Lanyard in front of an https API of a private authority")
    func walk() async throws {
        let api = try await Self.start()
        let lines = try Self.pageLines()
        #expect(lines.count == 5)
        let places = [
            "https://api.example.com": api.url, "/etc/ssl/private-ca.pem": api.folder.file("ca.pem"),
            "/run/secrets/token": api.folder.file("token"), "127.0.0.1:7400": "127.0.0.1:0",
            "127.0.0.1:7401": "127.0.0.1:0",
        ]
        let words = lines.flatMap { $0.split(separator: " ").map(String.init) }
        #expect(words.count { places[$0] != nil } == 5, "\(words)")
        // All programs of one user share the default place of the admin socket.
        let arguments = words.dropFirst().map { places[$0] ?? $0 } + ["--admin-address", "off"]
        let check = try ServerProcess("lanyard", ["check", "--online"] + arguments.dropFirst())
        #expect(try await check.waitForExit() == .code(0), "\(check.log)\(check.output)")
        #expect(check.output.contains("ok upstream default \(api.url) 127.0.0.1:"), "\(check.output)")
        let lanyard = try ServerProcess("lanyard", arguments)
        _ = try await lanyard.event("session.token.changed")
        let listening = try await lanyard.event("listening") { $0["listener"].string == "data" }
        let data = try RawEndpoint(listening["address"].string ?? "")
        let response = try await RawClient.ask(data, "GET", "/orders?page=2")
        #expect(response.status == 200 && response.bodyText.hasPrefix("TLSv1."), "\(response.bodyText)")
        #expect(response.bodyText.contains(" localhost /orders?page=2 "), "\(response.bodyText)")
        // The API itself refuses those who come without the field.
        #expect(try await RawClient.ask(api.nginx.endpoint, "GET", "/orders").status == 401)
        let large = try await RawClient.ask(data, "GET", "/large")
        let expected = try Data(contentsOf: URL(fileURLWithPath: api.folder.file("large")))
        #expect(large.bodyDigest == SHA256Digest.hex(of: Array(expected)))
        let body = String(repeating: "0123456789abcdef", count: 100_000)
        #expect(try await RawClient.ask(data, "PUT", "/store/up", body: body).status == 201)
        #expect(try String(contentsOfFile: api.folder.file("store/up"), encoding: .utf8) == body)
        try await lanyard.terminate()
        #expect(!lanyard.log.contains(Self.token))
    }

    @Test("nginx sees later connections resume the session of the first", arguments: ["TLSv1.2", "TLSv1.3"])
    func resumes(_ version: String) async throws {
        let api = try await Self.start("ssl_protocols \(version); keepalive_timeout 0;")
        let lanyard = try await LanyardProcess.start(
            "routes: [{name: all, upstream: \"\(api.url)\", tls: {ca_file: \(api.folder.file("ca.pem"))}}]\n",
            token: Self.token)
        try await lanyard.untilReady()
        var facts: [String] = []
        for _ in 0..<6 {
            facts.append(String(try await lanyard.get("/").bodyText.split(separator: " localhost").first ?? ""))
        }
        #expect(facts == ["\(version) ."] + [String](repeating: "\(version) r", count: 5))
    }

    @Test("nginx that demands a client certificate gets it, and answers itself where there is none")
    func clientCertificate() async throws {
        let own = Self.authority.issue(purpose: "clientAuth")
        let api = try await Self.start("ssl_verify_client on; ssl_client_certificate FOLDER/ca.pem;")
        let trust = "ca_file: \(api.folder.file("ca.pem"))"
        let shown =
            "certificate_file: \(try api.folder.write("own.pem", own.certificate)), "
            + "key_file: \(try api.folder.write("own.key", own.key))"
        for (keys, status) in [("\(trust), \(shown)", 200), (trust, 400)] {
            let lanyard = try await LanyardProcess.start(
                "routes: [{name: all, upstream: \"\(api.url)\", tls: {\(keys)}}]\n", token: Self.token)
            try await lanyard.untilReady()
            let response = try await lanyard.get("/")
            #expect(response.status == status, "\(response.bodyText)")
            #expect(response.bodyText.hasSuffix(" SUCCESS") == (status == 200), "\(response.bodyText)")
        }
    }
}
