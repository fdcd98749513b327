import Foundation
import LanyardFoundations
import TestSupport

@testable import SystemTestSupport

/// A Lanyard whose every secret is marked, and a record of all that it and its commands have said.
final class CanaryBench: Sendable {
    private let marked: Guarded<[(name: String, secret: String)]>
    private let said = Guarded<[(place: String, text: String)]>([])
    let folder: TemporaryFolder
    let emulator: EmulatorProcess
    /// Of the emulator and of Lanyard. It runs; the tests pass what they would wait for.
    let clock: TestClock
    /// Stands between Lanyard and the emulator.
    let witness: SecretWitness
    let process: ServerProcess
    /// Quotes the bearer token where no token belongs.
    private let upstream: RawServer
    /// An OAuth server that refuses each call and echoes what it has got.
    let echo: EchoingServer
    /// An OAuth server that writes what it has got, and what it gives, into each member of its responses.
    let spread: SpreadingServer
    private let admin: RawEndpoint

    // MARK: Start

    /// Starts Lanyard at level debug and waits until alice is logged in.
    static func start(format: String) async throws -> CanaryBench {
        let clock = try TestClock()
        let emulator = try await EmulatorProcess.start(tokens: "1800s", under: clock)
        let folder = try TemporaryFolder()
        let witness = try SecretWitness(before: emulator.endpoint, under: clock)
        let upstream = try RawServer { Self.respond($0.message) }
        let (echo, spread) = (try EchoingServer(), try SpreadingServer())
        let marked = Guarded<[(name: String, secret: String)]>([])
        let files = [
            "password", "key", "capability", "admin-token", "robot", "google", "facebook", "client", "oauth-password",
            "oauth-refresh", "subject", "field",
        ]
        for name in files {
            try folder.write(name, mark(name, in: marked))
        }
        try folder.write(
            "jwt", Tokens.jwt(#"{"sub":"\#(mark("jwt", in: marked))"}"#, signature: mark("jwt", in: marked)))
        try folder.write("payload", #"{"pin":"\#(mark("payload", in: marked))"}"#)
        let password = try String(contentsOfFile: folder.file("password"), encoding: .utf8)
        let change = try JSONEncoder().encode(["user": EmulatorProcess.email, "password": password])
        try await emulator.control("POST", "/users/password", String(decoding: change, as: UTF8.self))
        let path = try folder.write(
            "lanyard.yaml",
            configuration(
                folder, witness.endpoint, upstream.endpoint, echo.endpoint, spread.endpoint, format))
        let process = try ServerProcess("lanyard", ["run", "--config", path], under: clock)
        var admin = ""
        try await eventually("alice is logged in; \(process.log)") {
            let lines = process.lines.map(\.text)
            let bound = lines.first { $0.contains("listening") && $0.contains("admin") }
            admin = bound?.firstMatch(of: #/127\.0\.0\.1:\d+/#).map { String($0.0) } ?? ""
            return !admin.isEmpty && lines.contains { $0.contains("session.login.succeeded") && $0.contains("alice") }
        }
        return CanaryBench(
            folder, emulator, clock, witness, process, upstream, (echo, spread), try RawEndpoint(admin), marked)
    }

    private init(
        _ folder: TemporaryFolder, _ emulator: EmulatorProcess, _ clock: TestClock, _ witness: SecretWitness,
        _ process: ServerProcess, _ upstream: RawServer, _ servers: (EchoingServer, SpreadingServer),
        _ admin: RawEndpoint,
        _ marked: consuming Guarded<[(name: String, secret: String)]>
    ) {
        self.folder = folder
        self.emulator = emulator
        self.clock = clock
        self.witness = witness
        self.process = process
        self.upstream = upstream
        (echo, spread) = servers
        self.admin = admin
        self.marked = marked
    }

    private static func configuration(
        _ folder: TemporaryFolder, _ identity: RawEndpoint, _ upstream: RawEndpoint, _ echo: RawEndpoint,
        _ spread: RawEndpoint, _ format: String
    ) -> String {
        """
        listeners: [{address: "unix:\(folder.file("in"))", capability_file: capability}]
        health: {address: "unix:\(folder.file("health"))"}
        admin: {address: "127.0.0.1:0", token_file: admin-token}
        log: {level: debug, format: \(format)}
        store: {path: state/sessions, key_file: key}
        active_user: alice
        identities:
          demo: {app_services: {app_id: \(EmulatorProcess.app), base_url: "http://\(identity)"}}
          fixed: {static: {token_file: robot}}
          corp:
            oauth2:
              endpoints: {token: "http://\(echo)/token"}
              client_id: canary
              client_secret_file: client
          wide:
            oauth2:
              endpoints: {token: "http://\(spread)/token"}
              client_id: canary
              client_secret_file: client
              client_authentication: post
              scopes: [read, write]
        users:
          pam: {identity: wide, login: {password: {username: pam, password_file: oauth-password}}}
          olga: {identity: corp, login: {password: {username: olga, password_file: oauth-password}}}
          rex: {identity: corp, login: {refresh_token: {token_file: oauth-refresh}}}
          sue: {identity: corp, login: {token_exchange: {subject_token_file: subject}}}
          alice: {identity: demo, login: {email_password: {email: \(EmulatorProcess.email), password_file: password}}}
          fay: {identity: demo, login: {function: {payload_file: payload}}}
          jim: {identity: demo, login: {jwt: {token_file: jwt}}}
          gus: {identity: demo, login: {google: {auth_code_file: google}}}
          fred: {identity: demo, login: {facebook: {access_token_file: facebook}}}
          robot: {identity: fixed}
        routes:
          - {name: robot, match: {path: /as/robot}, user: robot, upstream: "http://\(upstream)"}
          - {name: pam, match: {path: /as/pam}, user: pam, token: {audience: orders}, upstream: "http://\(upstream)"}
          - {name: fay, match: {path: /as/fay}, user: fay, upstream: "http://\(upstream)"}
          - {name: all, upstream: "http://\(upstream)", set_headers: {X-Service-Key: {file: field}}}

        """
    }

    private static func respond(_ request: RawMessage) -> RawResponse {
        let token = [request["Authorization"], request["X-Service-Key"]].compactMap(\.self).joined(separator: " ")
        switch request.target.split(separator: "?").first ?? "" {
        case "/refuse":
            let challenge = "Bearer error=\"invalid_token\", error_description=\"\(token)\""
            return .response(401, token, fields: [("WWW-Authenticate", challenge)], body: token)
        case "/failure": return .response(500, token, fields: [("X-Token", token)], body: token)
        case "/field": return .text("HTTP/1.1 200 OK\r\nA field \(token): \(token)\r\n\r\n").closing
        case "/status": return .text("HTTP/1.1 \(token)\r\n\r\n").closing
        case "/length": return .text("HTTP/1.1 200 OK\r\nContent-Length: \(token)\r\n\r\n").closing
        case "/chunk": return .text("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\(token)\r\n").closing
        case "/short": return .text("HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n\(token)").closing
        case "/reset": return .reset
        default: return .response()
        }
    }

    // MARK: Marks

    /// A new secret that no other text resembles. Passwords have characters that each form writes in its own way.
    func mark(_ name: String) -> String { Self.mark(name, in: marked) }

    private static func mark(_ name: String, in marked: borrowing Guarded<[(name: String, secret: String)]>) -> String {
        let letters = Array("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~+/")
        let random = { (count: Int) in String((0..<count).map { _ in letters.randomElement() ?? "x" }) }
        let secret = name.contains("password") ? random(20) + SecretWritings.odd + random(20) : random(48)
        marked.withLock { $0.append((name, secret)) }
        return secret
    }

    /// The whole content of a secret's file.
    func content(_ name: String) throws -> String {
        try String(contentsOfFile: folder.file(name), encoding: .utf8)
    }

    // MARK: Records

    /// Something that Lanyard or a command has said.
    func keep(_ text: String, as place: String) { said.withLock { $0.append((place, text)) } }

    /// A response of Lanyard's own: what an upstream has said is passed on as it is.
    private func keep(_ response: RawMessage, as place: String) {
        guard response["Content-Type"]?.contains("problem") == true || !place.hasPrefix("request") else { return }
        let fields = response.fields.map { "\($0.name): \($0.value)" }.joined(separator: "\n")
        keep(fields + "\n" + response.bodyText, as: place)
    }

    /// A request with the capability and secrets of the client's own.
    func ask(_ target: String, _ fields: [(String, String)] = [], capability: String? = nil) async throws {
        let fields = try [("Lanyard-Capability", capability ?? content("capability"))] + fields
        let response = try? await RawClient.ask(.unix(folder.file("in")), "GET", target, fields: fields)
        if let response { keep(response, as: "request \(target.prefix { $0 != "?" })") }
    }

    /// Bytes that are no request, and all that comes for them.
    func send(_ bytes: String) async throws {
        let endpoint = RawEndpoint.unix(folder.file("in"))
        let client = try RawClient(endpoint)
        defer { client.close() }
        try client.send(bytes)
        client.halfClose()
        let response = String(decoding: (try? client.readToEnd()) ?? [], as: UTF8.self)
        keep(response, as: "the response to a bad request")
    }

    /// An admin call.
    @discardableResult
    func call(
        _ method: String, _ path: String, _ body: String? = nil, token: String? = nil, isKept: Bool = true
    ) async throws -> Int {
        let fields = [("Authorization", "Bearer \(try token ?? content("admin-token"))")]
        let response = try await RawClient.ask(
            admin, method, "/v1" + path, fields: fields, body: body)
        if isKept { keep(response, as: "admin \(method) \(path.prefix { $0 != "?" })") }
        return response.status
    }

    /// A command that calls the admin API, to its end.
    func command(_ arguments: [String], input: String? = nil) async throws {
        let run = try await CommandRun(arguments + adminFlags, input: input)
        keep(run.output + "\n" + run.errors.joined(separator: "\n"), as: "command \(arguments[0])")
    }

    /// A command without the admin API.
    func plainCommand(_ arguments: [String]) async throws {
        let run = try await CommandRun(arguments)
        keep(run.output + "\n" + run.errors.joined(separator: "\n"), as: "command \(arguments[0])")
    }

    /// Where commands find the admin API.
    var adminFlags: [String] { ["--admin", "\(admin)", "--token-file", folder.file("admin-token")] }

    /// Health pages and metrics.
    func keepHealth() async throws {
        for page in ["/livez", "/readyz?verbose", "/readyz", "/startupz", "/metrics", "/nowhere"] {
            let response = try await RawClient.ask(.unix(folder.file("health")), "GET", page)
            keep(response, as: "health \(page)")
        }
    }

    /// What the system shows of a process.
    func keepProcess(_ pid: pid_t, as name: String) throws {
        for file in ["cmdline", "environ", "comm", "status"] {
            let bytes = try Data(contentsOf: URL(filePath: "/proc/\(pid)/\(file)"))
            keep(String(decoding: bytes, as: UTF8.self), as: "\(file) of \(name)")
        }
    }

    // MARK: The search

    /// All secrets so far: marked ones, and what the service has given out.
    var secrets: [(name: String, secret: String)] {
        marked.withLock { $0 } + witness.gifts.map { ($0.key, $0.secret) }
            + spread.tokens.map { ("a token that was spread", $0) }
    }

    /// Everything said so far, the log included.
    var record: [(place: String, text: String)] {
        said.withLock { $0 } + [("log", process.log), ("standard output", process.output)]
    }
}
