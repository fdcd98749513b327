import Foundation
import TestSupport
import Testing

@testable import SystemTestSupport

/// A program that is reloaded again and again. Each reload gives its listener another `client_ca_file` and another capability, while the
/// files of the former configuration change.
final class ReplacedFiles: Sendable {
    /// One round tries these callers, each as the certificate of an authority with a capability.
    private struct Caller {
        let certificate: String
        let capability: String
        /// A status; `refused`: the handshake fails.
        let expected: String
    }

    private static let server = TestAuthority("Server")
    /// Of the two configurations, and of what comes into the files of the former one.
    private static let authorities = ["0", "1", "late"].map { TestAuthority("Clients \($0)") }

    private let folder: TemporaryFolder
    private let upstream: RawServer
    private let lanyard: LanyardProcess
    private let callers: ServerProcess
    private let questions: FileHandle
    private let clock: TestClock

    /// Starts with the configuration 0.
    init() async throws {
        let (folder, clock) = (try TemporaryFolder(), try TestClock())
        (self.folder, self.clock) = (folder, clock)
        upstream = try RawServer(requestsKeptMax: 0)
        let issued = Self.server.issue("DNS:localhost,IP:127.0.0.1")
        try folder.write("ca.pem", Self.server.pem)
        try folder.write("cert.pem", issued.certificate)
        try folder.write("key.pem", issued.key)
        for (name, authority) in zip(["0", "1", "late"], Self.authorities) {
            let issued = authority.issue("DNS:any", purpose: "clientAuth")
            try folder.write("client-\(name).pem", issued.certificate + issued.key)
        }
        for number in 0...1 { try Self.write(number, authority: number, capability: "of \(number)", to: folder) }
        lanyard = try await LanyardProcess.start(
            "routes: [{name: all, upstream: \"http://\(upstream.endpoint)\"}]\n", token: "tls-token",
            listener: Self.listener(0, in: folder), admin: "{address: \"unix:\(folder.file("admin.sock"))\"}",
            under: clock)
        try await lanyard.untilReady()
        clock.watch(upstream.threads)
        clock.stop()
        guard case .tcp(let port) = lanyard.data else { throw TestFailure("\(lanyard.data)") }
        let pipe = try Fifo(in: folder, named: "questions")
        callers = try ServerProcess(PythonProcess.path, ["-u", "-c", Self.script, folder.path, "\(port)"])
        questions = try await pipe.opened()
    }

    private static func listener(_ number: Int, in folder: TemporaryFolder) -> String {
        """
        address: "127.0.0.1:0", capability_file: \(folder.file("capability-\(number)")), tls: {certificate_file: \
        \(folder.file("cert.pem")), key_file: \(folder.file("key.pem")), client_ca_file: \
        \(folder.file("clients-\(number).pem"))}
        """
    }

    /// Secrets of a listener have 32 characters or more.
    private static func secret(_ name: String) -> String {
        name.replacing(" ", with: "-") + String(repeating: ".", count: 40)
    }

    /// Gives the files of a configuration an authority and a capability.
    private static func write(_ number: Int, authority: Int, capability: String, to folder: TemporaryFolder) throws {
        for (name, text) in [
            ("clients-\(number).pem", authorities[authority].pem), ("capability-\(number)", secret(capability)),
        ] {
            try folder.write(name + ".new", text)
            guard rename(folder.file(name + ".new"), folder.file(name)) == 0 else { throw TestFailure(name) }
        }
    }

    /// Changes the files of the configuration in use, and reloads the other one.
    ///
    /// - Parameters:
    ///   - round: the first is 1.
    ///   - delay: the time between the change and the reload. A change is in use 2.2 s (the capability) and 4.9 s (the authority) later at
    ///     most.
    /// - Returns: what was wrong behind the reload.
    func replace(_ round: Int, after delay: Duration) async throws -> [String] {
        let (next, former) = (round % 2, 1 - round % 2)
        let (own, late) = ("of \(round)", "late \(round)")
        try Self.write(next, authority: next, capability: own, to: folder)
        let text = try String(contentsOfFile: lanyard.folder.file("lanyard.yaml"), encoding: .utf8)
        let lines = text.split(separator: "\n", omittingEmptySubsequences: false).map { line in
            line.hasPrefix("listeners:") ? "listeners: [{\(Self.listener(next, in: folder))}]" : String(line)
        }
        try lanyard.folder.write("lanyard.yaml", lines.joined(separator: "\n"))
        try Self.write(former, authority: 2, capability: late, to: folder)
        try await clock.pass(delay)
        // The time passes beside the reload, too.
        async let passed: Void = clock.pass(.milliseconds(250))
        try await reload()
        let all = [
            Caller(certificate: "\(next)", capability: own, expected: "200"),
            Caller(certificate: "\(former)", capability: own, expected: "refused"),
            Caller(certificate: "late", capability: own, expected: "refused"),
            Caller(certificate: "\(next)", capability: late, expected: "403"),
            Caller(certificate: "\(next)", capability: "of \(round - 1)", expected: "403"),
        ]
        var wrong = try await call(all)
        try await passed
        // Until the watches of the former files have had time for all that they could do.
        for _ in 0..<2 {
            try await clock.pass(.seconds(3))
            wrong += try await call(all)
        }
        return wrong.map { "round \(round), \(delay) after the change: \($0)" }
    }

    private func reload() async throws {
        do {
            let response = try await RawClient.ask(.unix(folder.file("admin.sock")), "POST", "/v1/reload")
            guard response.status == 200 else { throw TestFailure(response.bodyText) }
        } catch {
            throw TestFailure("\(error); it said:\n\(lanyard.process.log)")
        }
    }

    private func call(_ all: [Caller]) async throws -> [String] {
        let before = results.count
        for caller in all {
            let line = "\(caller.certificate) \(Self.secret(caller.capability))\n"
            try questions.write(contentsOf: Data(line.utf8))
        }
        try await eventually("all callers are answered; Python said:\n\(callers.log)") {
            results.count == before + all.count
        }
        return zip(all, results[before...]).compactMap { caller, result in
            caller.expected == result ? nil : "\(caller.certificate), \(caller.capability): \(result)"
        }
    }

    private var results: [Substring] { callers.output.split(separator: "\n") }

    private static let script = #"""
        import socket, ssl, sys
        folder, port = sys.argv[1], int(sys.argv[2])
        def call(name, capability):
            made = ssl.create_default_context(cafile=folder + "/ca.pem")
            made.load_cert_chain(folder + "/client-" + name + ".pem")
            try:
                with made.wrap_socket(socket.create_connection(("127.0.0.1", port)), server_hostname="localhost") as client:
                    client.sendall(f"GET / HTTP/1.1\r\nHost: localhost:{port}\r\nLanyard-Capability: {capability}\r\n\r\n".encode())
                    return client.makefile("rb").readline().split()[1].decode()
            except (ssl.SSLError, ConnectionError): return "refused"
        for line in open(folder + "/questions"): print(call(*line.split()), flush=True)
        """#
}
