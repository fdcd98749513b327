import TestSupport
import Testing

@testable import SystemTestSupport

/// `lanyard run` without a configuration file: a one-user set-up by flags or environment alone.
@Suite struct RunWithoutFileTests {
    private let folder: TemporaryFolder
    private let token: String

    init() throws {
        folder = try TemporaryFolder()
        token = try folder.write("token", "a-token\n")
    }

    /// One request through it; what the upstream was told as Authorization.
    private func authorization(
        of process: ServerProcess, at upstream: RawServer, where data: RawEndpoint? = nil
    ) async throws -> String? {
        let health = try await process.event("listening") { $0["listener"].string == "health" }
        let bound = try await process.event("listening") { $0["listener"].string == "data" }
        let address = try RawEndpoint(bound["address"].string ?? "")
        #expect(data == nil || data == address)
        let probe = try RawEndpoint(health["address"].string ?? "")
        try await eventually("it is ready; it said:\n\(process.log)") {
            try await RawClient.ask(probe, "GET", "/readyz").status == 200
        }
        #expect(try await RawClient.ask(probe, "GET", "/readyz/default").status == 200)
        let response = try await RawClient.ask(address, "GET", "/orders")
        #expect(response.status == 200 && response.bodyText == "ok")
        #expect(upstream.requests.last?.target == "/orders")
        let seen = upstream.requests.last?["Authorization"]
        #expect(try await process.terminate() == .code(143))
        return seen
    }

    @Test("by flags alone, with a token file")
    func flags() async throws {
        let upstream = try RawServer()
        let process = try ServerProcess(
            "lanyard",
            [
                "run", "--listen", "127.0.0.1:0", "--health-address", "127.0.0.1:0", "--upstream",
                "http://\(upstream.endpoint)", "--token-file", token,
            ])
        #expect(try await authorization(of: process, at: upstream) == "Bearer a-token")
    }

    @Test("by environment alone, with a token file, on a unix socket")
    func environment() async throws {
        let upstream = try RawServer()
        let process = try ServerProcess(
            "lanyard", ["run"],
            environment: [
                "LANYARD_LISTEN": "unix:\(folder.file("data.sock"))", "LANYARD_HEALTH_ADDRESS": "127.0.0.1:0",
                "LANYARD_UPSTREAM": "http://\(upstream.endpoint)", "LANYARD_TOKEN_FILE": token,
            ])
        let seen = try await authorization(of: process, at: upstream, where: .unix(folder.file("data.sock")))
        #expect(seen == "Bearer a-token")
    }

    @Test("with a login: by flags, by environment, and by both, where the flag wins", arguments: 0..<3)
    func login(_ way: Int) async throws {
        let emulator = try await EmulatorProcess.start(tokens: "30m")
        let upstream = try RawServer()
        let given = [
            ("listen", "127.0.0.1:0"), ("health-address", "127.0.0.1:0"), ("upstream", "http://\(upstream.endpoint)"),
            ("app-id", EmulatorProcess.app), ("base-url", "http://\(emulator.endpoint)"),
            ("email", EmulatorProcess.email), ("password-file", emulator.passwordFile),
        ]
        let flags = way == 1 ? [] : given.flatMap { ["--\($0.0)", $0.1] }
        var environment: [String: String] = [:]
        if way > 0 {
            for (name, value) in given {
                environment["LANYARD_" + name.uppercased().replacing("-", with: "_")] = value
            }
        }
        if way == 2 { environment["LANYARD_EMAIL"] = "nobody@example.com" }
        let process = try ServerProcess("lanyard", ["run"] + flags, environment: environment)
        let seen = try #require(try await authorization(of: process, at: upstream))
        let issued = try await emulator.issued().compactMap { $0["access_token"].string ?? $0["token"].string }
        #expect(issued.isEmpty || issued.contains { seen == "Bearer \($0)" })
        #expect(seen.hasPrefix("Bearer ey"))
    }

    @Test("with an OAuth client: by flags and by environment", arguments: [true, false])
    func client(_ isByFlags: Bool) async throws {
        let upstream = try RawServer()
        let provider = try RawServer { request in
            let json = [("Content-Type", "application/json")]
            let issuer = "http://\(request.message["Host"] ?? "")"
            guard request.message.target == "/token" else {
                return .response(fields: json, body: #"{"issuer":"\#(issuer)","token_endpoint":"\#(issuer)/token"}"#)
            }
            let grant = #"{"access_token":"of-the-client","token_type":"Bearer","expires_in":3600}"#
            return .response(fields: json, body: grant)
        }
        let given = [
            ("listen", "127.0.0.1:0"), ("health-address", "127.0.0.1:0"), ("upstream", "http://\(upstream.endpoint)"),
            ("issuer", "http://\(provider.endpoint)"), ("client-id", "orders"), ("client-secret-file", token),
            ("scopes", "read,write"), ("audience", "orders api"),
        ]
        let variables = given.map { ("LANYARD_" + $0.0.uppercased().replacing("-", with: "_"), $0.1) }
        let process = try ServerProcess(
            "lanyard", ["run"] + (isByFlags ? given.flatMap { ["--\($0.0)", $0.1] } : []),
            environment: isByFlags ? [:] : Dictionary(uniqueKeysWithValues: variables))
        #expect(try await authorization(of: process, at: upstream) == "Bearer of-the-client")
        let body = try #require(provider.requests.first { $0.target == "/token" }?.bodyText)
        for part in ["grant_type=client_credentials", "scope=read%20write", "audience=orders%20api"] {
            #expect(body.contains(part) || body.contains(part.replacing("%20", with: "+")), "\(body)")
        }
    }
}
