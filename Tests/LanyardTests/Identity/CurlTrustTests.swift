import TestSupport
import Testing

@testable import Lanyard

/// `openssl s_server` behind a certificate of a private authority: it answers `location` from a file.
private struct TLSService {
    let folder: TemporaryFolder
    let process: ServerProcess
    let port: Int

    init(demandsClientCertificate: Bool = false) async throws {
        folder = try TemporaryFolder()
        let make = """
            cd \(folder.path) && exec 2>/dev/null
            openssl req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.pem -subj /CN=Authority -days 2
            for name in server client; do
              openssl req -newkey rsa:2048 -nodes -keyout $name.key -out $name.csr -subj /CN=$name
              printf 'subjectAltName=IP:127.0.0.1' > ext
              openssl x509 -req -in $name.csr -CA ca.pem -CAkey ca.key -CAcreateserial -out $name.pem -days 2 -extfile ext
            done
            """
        let maker = try ServerProcess("/bin/sh", ["-c", make], environment: ["PATH": "/usr/bin:/bin"])
        guard try await maker.waitForExit(within: .seconds(60)) == .code(0) else {
            throw TestFailure("openssl could not make certificates")
        }
        let path = "api/client/v2.0/app/demo-abcde"
        let answer = "HTTP/1.1 200 OK\\r\\n\\r\\n{\"hostname\":\"http://127.0.0.1:1\"}"
        let client = demandsClientCertificate ? "-Verify 1 -verify_return_error -CAfile ca.pem" : ""
        let serve = """
            cd \(folder.path) && mkdir -p \(path) && printf '\(answer)' > \(path)/location
            exec openssl s_server -HTTP -accept 127.0.0.1:0 -cert server.pem -key server.key \(client)
            """
        let process = try ServerProcess("/bin/sh", ["-c", serve], environment: ["PATH": "/usr/bin:/bin"])
        try await eventually("s_server listens", within: .seconds(20)) { process.output.contains("ACCEPT ") }
        self.process = process
        port = Int(process.output.split(separator: ":").last?.prefix { $0.isNumber } ?? "") ?? 0
    }

    func file(_ name: String) -> String { folder.file(name) }
}

@Suite("Identity calls: whom to trust")
struct CurlTrustTests {
    private static let downgrade = "leads from https to http"

    private func words(_ port: Int, _ trust: CurlTrust, host: String = "127.0.0.1") async throws -> String {
        let bench = try IdentityBench(baseURL: "https://\(host):\(port)", tls: trust)
        let fault = await bench.refresh().failure
        #expect(fault?.verdict == .transient(retryAfter: nil))
        return fault?.words ?? ""
    }

    @Test(
        "an unknown authority and a wrong name are not trusted; the configured authority is, and https leads to no http"
    )
    func authority() async throws {
        let service = try await TLSService()
        let own = CurlTrust(caFile: service.file("ca.pem"), proxy: .none)
        #expect(try await words(service.port, CurlTrust(proxy: .none)).contains("TLS"))
        #expect(try await words(service.port, own, host: "localhost").contains("TLS"))
        #expect(try await words(service.port, own).contains(Self.downgrade))
        // A file of authorities replaces the system's: this one holds none that signed the server's.
        let other = CurlTrust(caFile: service.file("client.pem"), proxy: .none)
        #expect(try await words(service.port, other).contains("TLS"))
    }

    @Test("a file of authorities that is not there is said to be missing")
    func missingAuthority() async throws {
        let service = try await TLSService()
        #expect(
            try await words(service.port, CurlTrust(caFile: "/nowhere/ca.pem", proxy: .none)).contains(
                "/nowhere/ca.pem"))
    }

    @Test("a client certificate is shown to the service that demands one")
    func clientCertificate() async throws {
        let service = try await TLSService(demandsClientCertificate: true)
        var trust = CurlTrust(caFile: service.file("ca.pem"), proxy: .none)
        #expect(try await words(service.port, trust).contains(Self.downgrade) == false)
        trust.certificateFile = service.file("client.pem")
        trust.keyFile = service.file("client.key")
        #expect(try await words(service.port, trust).contains(Self.downgrade))
    }

    @Test("a configured proxy is asked for http, and none is used unless configured")
    func proxy() async throws {
        let proxy = try RawServer { _ in .answer(502, "No", body: "") }
        let bench = try IdentityBench(tls: CurlTrust(proxy: .url("http://\(proxy.endpoint)")))
        #expect(await bench.refresh().failure?.status == 502)
        #expect(proxy.requests.map(\.target) == ["\(bench.origin)\(IdentityBench.appPath)/location"])
        #expect(bench.server.connectionCount == 0)
    }
}
