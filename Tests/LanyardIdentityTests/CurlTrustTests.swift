import IdentityTestSupport
import TestSupport
import Testing

@testable import LanyardIdentity
@testable import LanyardSessionInterface
@testable import LanyardSettings

/// `openssl s_server` behind a certificate of a private authority: it answers `location` from a file.
private struct TLSService {
    let folder: TemporaryFolder
    let process: ServerProcess
    let port: Int

    /// - Parameter days: the certificates' life; -1 has ended a day ago.
    init(demandsClientCertificate: Bool = false, days: Int = 2) async throws {
        folder = try TemporaryFolder()
        let make = """
            cd \(folder.path) && exec 2>/dev/null
            openssl req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.pem -subj /CN=Authority -days 2
            for name in server client; do
              openssl req -newkey rsa:2048 -nodes -keyout $name.key -out $name.csr -subj /CN=$name
              printf 'subjectAltName=IP:127.0.0.1' > ext
              openssl x509 -req -in $name.csr -CA ca.pem -CAkey ca.key -CAcreateserial -out $name.pem -days \(days) -extfile ext
            done
            """
        let maker = try ServerProcess("/bin/sh", ["-c", make], environment: ["PATH": "/usr/bin:/bin"])
        guard try await maker.waitForExit(within: .seconds(60)) == .code(0) else {
            throw TestFailure("openssl could not make certificates")
        }
        let path = "api/client/v2.0/app/demo-abcde"
        let response = "HTTP/1.1 200 OK\\r\\n\\r\\n{\"hostname\":\"http://127.0.0.1:1\"}"
        let client = demandsClientCertificate ? "-Verify 1 -verify_return_error -CAfile ca.pem" : ""
        let serve = """
            cd \(folder.path) && mkdir -p \(path) && printf '\(response)' > \(path)/location
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

    private func error(_ port: Int, _ trust: CurlTrust, host: String = "127.0.0.1") async throws -> IdentityError {
        let bench = try IdentityBench(baseURL: "https://\(host):\(port)", tls: trust)
        let error = try #require(await bench.refresh().failure)
        #expect(error.verdict == .transient(retryAfter: nil))
        return error
    }

    private func message(_ port: Int, _ trust: CurlTrust) async throws -> String {
        try await error(port, trust).message
    }

    private func isAlarm(_ error: IdentityError) -> Bool {
        error.isAlarming && error.message.hasPrefix("no trust in the identity service's TLS connection")
    }

    @Test(
        "an unknown authority and a wrong name are not trusted; the configured authority is, and https leads to no http"
    )
    func authority() async throws {
        let service = try await TLSService()
        let own = CurlTrust(caFile: service.file("ca.pem"), proxy: .none)
        #expect(isAlarm(try await error(service.port, CurlTrust(proxy: .none))))
        #expect(isAlarm(try await error(service.port, own, host: "localhost")))
        let trusted = try await error(service.port, own)
        #expect(trusted.message.contains(Self.downgrade) && !trusted.isAlarming)
        // A file of authorities replaces the system's: this one holds none that signed the server's.
        let other = CurlTrust(caFile: service.file("client.pem"), proxy: .none)
        #expect(isAlarm(try await error(service.port, other)))
    }

    @Test("a certificate that has ended is not trusted, and that alarms as well")
    func expired() async throws {
        let service = try await TLSService(days: -1)
        #expect(isAlarm(try await error(service.port, CurlTrust(caFile: service.file("ca.pem"), proxy: .none))))
    }

    @Test(
        "a port that does not speak TLS, or ends the handshake, is told as that, without an alarm",
        arguments: [
            FaultGate.Mode.garbage(Array("HTTP/1.1 400 Bad Request\r\n\r\n".utf8)), .dropRequest(.close),
            .dropRequest(.reset),
        ])
    func handshake(_ mode: FaultGate.Mode) async throws {
        let gate = try FaultGate(before: .tcp(1), mode: mode)
        let error = try await error(Int(gate.endpoint.port), CurlTrust(proxy: .none))
        #expect(!error.isAlarming)
        #expect(error.message.hasPrefix("TLS could not be agreed with the identity service ("))
        #expect(error.message.contains("does it speak https at that port"))
    }

    @Test("a file of authorities that is not there is said to be missing")
    func missingAuthority() async throws {
        let service = try await TLSService()
        #expect(
            try await message(service.port, CurlTrust(caFile: "/nowhere/ca.pem", proxy: .none)).contains(
                "/nowhere/ca.pem"))
    }

    @Test("a client certificate is shown to the service that demands one")
    func clientCertificate() async throws {
        let service = try await TLSService(demandsClientCertificate: true)
        var trust = CurlTrust(caFile: service.file("ca.pem"), proxy: .none)
        #expect(try await message(service.port, trust).contains(Self.downgrade) == false)
        trust.certificateFile = service.file("client.pem")
        trust.keyFile = service.file("client.key")
        #expect(try await message(service.port, trust).contains(Self.downgrade))
    }

    @Test("a configured proxy is asked for http, and none is used unless configured")
    func proxy() async throws {
        let proxy = try RawServer { _ in .response(502, "No", body: "") }
        let bench = try IdentityBench(tls: CurlTrust(proxy: .url("http://\(proxy.endpoint)")))
        #expect(await bench.refresh().failure?.status == 502)
        #expect(proxy.requests.map(\.target) == ["\(bench.origin)\(IdentityBench.appPath)/location"])
        #expect(bench.server.connectionCount == 0)
    }
}

extension IdentityBench {
    /// With this trust and proxy.
    fileprivate convenience init(baseURL: String? = nil, tls: CurlTrust) throws {
        try self.init(
            baseURL: baseURL,
            settings: { settings in
                settings.caFile = tls.caFile
                settings.certificateFile = tls.certificateFile
                settings.keyFile = tls.keyFile
                settings.proxy = tls.proxy
            })
    }
}
