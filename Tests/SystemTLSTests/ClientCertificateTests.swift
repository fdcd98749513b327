import Foundation
import TestSupport
import Testing

@testable import SystemTestSupport

/// `client_ca_file` and `client_names`: who may call a listener with TLS.
@Suite(.serialized, .enabled(if: PythonProcess.isInstalled, "needs /usr/bin/python3"))
struct ClientCertificateTests {
    private static let names = "[\"orders.internal\", \"URI:spiffe://demo/billing\", \"IP:10.0.0.5\"]"
    private static let shared = Task {
        try await ListenerTLSBench.start("client_ca_file: FOLDER/clients.pem, client_names: \(names)")
    }
    private let bench: ListenerTLSBench

    init() async throws { bench = try await Self.shared.value }

    /// Prints the status, or the alert that ends the connection.
    private static let script = """
        version, certificate = sys.argv[3], sys.argv[4]
        try:
            status, fields, body = ask("/", context(version, None if certificate == "none" else certificate))
            print(status, fields.get(b"connection", b"").decode(), "caller-not-allowed" if b"caller-not-allowed" in body else "")
        except ssl.SSLError as error: print(error.reason)
        except OSError as error: print(type(error).__name__)
        """

    @Test("a client whose certificate is trusted and named is served", arguments: ["1.2", "1.3"])
    func allowed(_ version: String) async throws {
        for (index, names) in ["DNS:orders.internal", "DNS:x,URI:spiffe://demo/billing", "IP:10.0.0.5"].enumerated() {
            try bench.writeClient("client\(index).pem", names: names)
            #expect(try await bench.python(Self.script, [version, "client\(index).pem"]).hasPrefix("200"))
        }
    }

    @Test("a trusted certificate without an allowed name: 403 with a reason, also when its session is resumed")
    func unnamed() async throws {
        try bench.writeClient("other.pem", names: "DNS:other.internal,DNS:xorders.internal,URI:orders.internal/")
        for version in ["1.2", "1.3"] {
            #expect(try await bench.python(Self.script, [version, "other.pem"]) == "403 close caller-not-allowed\n")
        }
        let output = try await bench.python(
            """
            made = context("1.2", "other.pem")
            with connect(made) as client:
                client.sendall(request("/"))
                print(response(client.makefile("rb"))[0])
                session = client.session
            with connect(made, session=session) as client:
                client.sendall(request("/"))
                print(client.session_reused, response(client.makefile("rb"))[0])
            """)
        #expect(output == "403\nTrue 403\n")
        let rejections = try await bench.values(of: "lanyard_rejected_requests_total", by: "reason")
        #expect(rejections["caller"] == 4)
        _ = try await bench.lanyard.process.event("request.refused") { $0["reason"].string == "caller-not-allowed" }
    }

    @Test("no certificate, a foreign, an expired or another purpose's one: an alert and a reason, no response")
    func refused() async throws {
        try bench.writeClient("foreign.pem", names: "DNS:orders.internal", authority: TestAuthority("Somebody"))
        try bench.writeClient("expired.pem", names: "DNS:orders.internal", to: -60)
        try bench.writeClient("server.pem", names: "DNS:orders.internal", purpose: "serverAuth")
        let cases = [
            ("none", "certificate_missing"), ("foreign.pem", "unknown_authority"), ("expired.pem", "expired"),
            ("server.pem", "wrong_purpose"),
        ]
        for (certificate, result) in cases {
            for version in ["1.2", "1.3"] {
                let before = try await bench.handshakes()[result, default: 0]
                let output = try await bench.python(Self.script, [version, certificate])
                #expect(output.contains("ALERT"), "\(certificate) \(version): \(output)")
                #expect(try await bench.handshakes()[result, default: 0] == before + 1)
            }
            _ = try await bench.lanyard.process.event("listener.tls.handshake_failed") { $0["reason"].string == result }
        }
    }
}
