import IdentityTestSupport
import LanyardFoundations
import TestSupport
import Testing

@testable import LanyardIdentity
@testable import LanyardSessionInterface
@testable import LanyardSettings

/// `openssl s_server` behind a certificate of a private authority: it answers `location` from a file.
struct TLSService {
    let folder: TemporaryFolder
    let process: ServerProcess
    let port: Int

    /// - Parameter days: the certificates' life; -1 has ended a day ago.
    init(demandsClientCertificate: Bool = false, days: Int = 2) async throws {
        folder = try TemporaryFolder()
        let make = """
            cd \(folder.path) && exec 2>/dev/null
            key='-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes'
            openssl req -x509 $key -keyout ca.key -out ca.pem -subj /CN=Authority -days 2
            for name in server client; do
              openssl req $key -keyout $name.key -out $name.csr -subj /CN=$name
              printf 'subjectAltName=IP:127.0.0.1' > ext
              openssl x509 -req -in $name.csr -CA ca.pem -CAkey ca.key -CAcreateserial -out $name.pem -days \(days) -extfile ext
            done
            """
        let maker = try ServerProcess("/bin/sh", ["-c", make], environment: ["PATH": "/usr/bin:/bin"])
        guard try await maker.waitForExit() == .code(0) else {
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
        try await eventually("s_server listens") { process.output.contains("ACCEPT ") }
        self.process = process
        port = Int(process.output.split(separator: ":").last?.prefix { $0.isNumber } ?? "") ?? 0
    }

    func content(_ name: String) throws -> Secret { try SecretFile.readWhole(folder.file(name)).secret }
}

@Suite("Identity calls: whom to trust")
struct CurlTrustTests {
    private static let downgrade = "leads from https to http"

    private func error(
        _ port: Int, _ tls: IdentityTLSContents = IdentityTLSContents(), host: String = "127.0.0.1"
    ) async throws -> IdentityError {
        let bench = try IdentityBench(baseURL: "https://\(host):\(port)", tls: tls)
        let error = try #require(await bench.refresh().failure)
        #expect(error.verdict == .transient(retryAfter: nil))
        return error
    }

    private func isAlarm(_ error: IdentityError) -> Bool {
        error.isAlarming && error.message.hasPrefix("no trust in the identity service's TLS connection")
    }

    @Test("a certificate that ends in the year 9900 has not ended")
    func endless() async throws {
        let service = try await TLSService(days: 2_880_000)
        let own = IdentityTLSContents(authorities: try service.content("ca.pem"))
        let bench = try IdentityBench(baseURL: "https://127.0.0.1:\(service.port)", tls: own)
        let outcome = await withCheckedContinuation { done in bench.identity.connect { done.resume(returning: $0) } }
        #expect(try outcome.get().certificateEnd == WallTime(nanoseconds: .max))
    }

    @Test(
        "an unknown authority and a wrong name are not trusted; the configured authority is, and https leads to no http"
    )
    func authority() async throws {
        let service = try await TLSService()
        let own = IdentityTLSContents(authorities: try service.content("ca.pem"))
        #expect(isAlarm(try await error(service.port)))
        #expect(isAlarm(try await error(service.port, own, host: "localhost")))
        let trusted = try await error(service.port, own)
        #expect(trusted.message.contains(Self.downgrade) && !trusted.isAlarming)
        // These authorities replace the system's: none of them has signed the server's certificate.
        let other = IdentityTLSContents(authorities: try service.content("client.pem"))
        #expect(isAlarm(try await error(service.port, other)))
    }

    @Test("a certificate that has ended is not trusted, and that alarms as well")
    func expired() async throws {
        let service = try await TLSService(days: -1)
        let tls = IdentityTLSContents(authorities: try service.content("ca.pem"))
        #expect(isAlarm(try await error(service.port, tls)))
    }

    @Test(
        "a port that does not speak TLS, or ends the handshake, is told as that, without an alarm",
        arguments: [
            FaultGate.Mode.garbage(Array("HTTP/1.1 400 Bad Request\r\n\r\n".utf8)), .dropRequest(.close),
            .dropRequest(.reset),
        ])
    func handshake(_ mode: FaultGate.Mode) async throws {
        let gate = try FaultGate(before: .tcp(1), mode: mode)
        let error = try await error(Int(gate.endpoint.port))
        #expect(!error.isAlarming)
        #expect(error.message.hasPrefix("TLS could not be agreed with the identity service ("))
        #expect(error.message.contains("does it speak https at that port"))
    }

    @Test(
        "contents that are no authorities, and a key of another certificate: the call fails, and none goes without them"
    )
    func unfit() async throws {
        let service = try await TLSService()
        let authorities = try service.content("ca.pem")
        let cases = [
            IdentityTLSContents(authorities: Tokens.secret("none")),
            IdentityTLSContents(
                authorities: authorities, certificate: try service.content("client.pem"),
                key: try service.content("server.key")),
        ]
        for tls in cases {
            let message = try await error(service.port, tls).message
            #expect(message.hasPrefix("the location request was not made ("), "\(message)")
        }
    }

    @Test("a key with a password is refused at once: nothing asks for the password")
    func encryptedKey() async throws {
        let service = try await TLSService()
        let issued = TestAuthority().issue(password: "hunter2")
        let tls = IdentityTLSContents(
            authorities: try service.content("ca.pem"), certificate: Tokens.secret(issued.certificate),
            key: Tokens.secret(issued.key))
        let message = try await error(service.port, tls).message
        #expect(message.hasPrefix("the location request was not made ("), "\(message)")
    }

    @Test("a client certificate is shown to the service that demands one, and a later one in its place")
    func clientCertificate() async throws {
        let service = try await TLSService(demandsClientCertificate: true)
        let authorities = try service.content("ca.pem")
        let bench = try IdentityBench(
            baseURL: "https://127.0.0.1:\(service.port)", tls: IdentityTLSContents(authorities: authorities))
        let without = try #require(await bench.refresh().failure).message
        #expect(!without.contains(Self.downgrade), "\(without)")
        bench.identity.replaceTLS(
            IdentityTLSContents(
                authorities: authorities, certificate: try service.content("client.pem"),
                key: try service.content("client.key")))
        let with = try #require(await bench.refresh().failure).message
        #expect(with.contains(Self.downgrade), "\(with)")
    }

    @Test("a configured proxy is asked for http, and none is used unless configured")
    func proxy() async throws {
        let proxy = try RawServer { _ in .response(502, "No", body: "") }
        let bench = try IdentityBench(settings: { $0.proxy = .url("http://\(proxy.endpoint)") })
        #expect(await bench.refresh().failure?.status == 502)
        #expect(proxy.requests.map(\.target) == ["\(bench.origin)\(IdentityBench.appPath)/location"])
        #expect(bench.server.connectionCount == 0)
    }

    @Test(
        "an address of a metadata service is not called, whatever leads there",
        arguments: ["http://169.254.169.254", "https://169.254.1.1", "http://[fe80::1]", "http://100.100.100.200"])
    func metadataService(_ origin: String) async throws {
        let configured = try IdentityBench(baseURL: origin)
        let named = try IdentityBench(script: { _, path in
            path.hasSuffix("/location") ? IdentityBench.location(origin) : nil
        })
        let proxied = try IdentityBench(settings: { $0.proxy = .url(origin) })
        for bench in [configured, named, proxied] {
            let error = try #require(await bench.refresh().failure)
            #expect(error.isAlarming && error.message.contains("an address of a metadata service"), "\(error.message)")
        }
    }
}
