import Glibc
import TestSupport
import Testing

@testable import SystemTestSupport

/// curl and `openssl` in front of the built binary, and `openssl s_server` behind it.
@Suite(
    .enabled("needs Python, curl and openssl") {
        PythonProcess.isInstalled && access("/usr/bin/curl", X_OK) == 0 && access("/usr/bin/openssl", X_OK) == 0
    })
struct OpenSSLPeerTests {
    private func curl(_ bench: ListenerTLSBench, _ arguments: [String]) async throws -> (
        exit: ServerProcess.Exit, output: String, errors: String
    ) {
        let fixed = ["-sS", "-m", "30", "--http1.1", "--noproxy", "", "--cacert", bench.folder.file("ca.pem")]
        let process = try ServerProcess("/usr/bin/curl", fixed + arguments)
        return (try await process.waitForExit(), process.output, process.log)
    }

    @Test("curl with a client certificate is served over both versions, on one connection and on many")
    func curlShows() async throws {
        let bench = try await ListenerTLSBench.start(
            "client_ca_file: FOLDER/clients.pem, client_names: [\"orders.internal\"]")
        try bench.writeClient("client.pem", names: "DNS:orders.internal")
        let url = "https://localhost:\(bench.port)/"
        let certificate = ["--cert", bench.folder.file("client.pem")]
        for version in ["1.2", "1.3"] {
            let (exit, output, errors) = try await curl(
                bench, certificate + ["--tlsv\(version)", "--tls-max", version, "-w", " %{num_connects}\n", url, url])
            #expect(exit == .code(0) && output == "ok 1\nok 0\n", "\(output)\(errors)")
        }
        let many = try await curl(
            bench,
            certificate + [
                "-Z", "--parallel-max", "30", "-o", "/dev/null", "-w", "%{http_code}\n", url + "?[1-200]",
            ])
        #expect(many.exit == .code(0) && many.output == String(repeating: "200\n", count: 200), "\(many.errors)")
        // Another connection for each: all but the first of curl's sessions are resumed.
        let before = try await bench.handshakes()["resumed", default: 0]
        let closing = try await curl(
            bench, certificate + ["-H", "Connection: close", "-w", " %{num_connects}\n", url, url, url])
        #expect(closing.output == "ok 1\nok 1\nok 1\n", "\(closing.output)\(closing.errors)")
        #expect(try await bench.handshakes()["resumed", default: 0] == before + 2)
    }

    @Test(
        "curl without a certificate, with a foreign one or of another name gets an alert or 403, and never the upstream"
    )
    func curlRefused() async throws {
        let bench = try await ListenerTLSBench.start(
            "client_ca_file: FOLDER/clients.pem, client_names: [\"orders.internal\"]")
        try bench.writeClient("foreign.pem", names: "DNS:orders.internal", authority: TestAuthority("Elsewhere"))
        try bench.writeClient("other.pem", names: "DNS:other.internal")
        let url = "https://localhost:\(bench.port)/"
        let cases: [([String], String)] = [
            ([], "certificate_missing"), (["--cert", bench.folder.file("foreign.pem")], "unknown_authority"),
        ]
        for (arguments, reason) in cases {
            let (exit, output, errors) = try await curl(bench, arguments + [url])
            #expect(exit != .code(0) && output.isEmpty && errors.contains("alert"), "\(reason): \(output)\(errors)")
            #expect(try await bench.handshakes()[reason] == 1)
        }
        let named = try await curl(
            bench, ["--cert", bench.folder.file("other.pem"), "-o", "/dev/null", "-w", "%{http_code}", url])
        #expect(named.exit == .code(0) && named.output == "403", "\(named.errors)")
    }

    @Test("openssl s_client resumes its session again and again")
    func reconnects() async throws {
        let bench = try await ListenerTLSBench.start()
        let client = try ServerProcess(
            "/usr/bin/openssl",
            [
                "s_client", "-connect", "127.0.0.1:\(bench.port)", "-CAfile", bench.folder.file("ca.pem"),
                "-servername",
                "localhost", "-tls1_2", "-reconnect",
            ])
        _ = try await client.waitForExit()
        #expect(client.output.ranges(of: "Reused, TLSv1.2").count == 5, "\(client.output)")
        #expect(try await bench.handshakes()["resumed"] == 5)
    }

    @Test(
        "16.1 openssl s_server of an old version, without a common cipher or protocol: 502 with the reason",
        arguments: [
            (["-tls1", "-cipher", "ALL:@SECLEVEL=0"], "no_shared_version"),
            (["-tls1_1", "-cipher", "ALL:@SECLEVEL=0"], "no_shared_version"),
            (["-tls1_2", "-cipher", "AES128-GCM-SHA256"], "no_shared_cipher"),
            (["-alpn", "other"], "no_shared_protocol"),
        ])
    func servers(_ arguments: [String], _ reason: String) async throws {
        let folder = try TemporaryFolder()
        let issued = TLSUpstream.authority.issue(key: .rsa(bits: 2048))
        try folder.write("ca.pem", TLSUpstream.authority.pem)
        let server = try ServerProcess(
            "/usr/bin/openssl",
            [
                "s_server", "-accept", "127.0.0.1:0", "-cert", try folder.write("leaf.pem", issued.certificate), "-key",
                try folder.write("leaf.key", issued.key), "-www",
            ] + arguments)
        try await eventually("s_server listens: \(server.log)") { server.output.contains("ACCEPT ") }
        let port = try #require(server.output.split(whereSeparator: { !$0.isNumber }).last)
        let lanyard = try await LanyardProcess.start(
            before: "https://localhost:\(port)", route: "tls: {ca_file: \(folder.file("ca.pem"))}")
        let response = try await lanyard.get("/")
        #expect(response.status == 502, "\(response.headText)")
        #expect(response["Proxy-Status"] == "lanyard; error=tls_protocol_error", "\(response.bodyText)")
        let line = try await lanyard.process.event("upstream.tls.failed")
        #expect(line["reason"].string == reason, "\(lanyard.process.log)")
        #expect(!server.output.contains("stream-token"))
    }
}
