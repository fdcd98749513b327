import Foundation
import TestSupport
import Testing

@testable import SystemTestSupport

/// The requests of the built Lanyard before the checks of the independent client: path, token, fields and members of each.
@Suite(.enabled(if: PythonProcess.isInstalled, "needs /usr/bin/python3"))
struct AppServicesRequestTests {
    /// One kind of login: the user's name, which is also that of the secret's file after `login-`, and what the configuration says.
    private struct Kind: Sendable {
        let name: String
        let provider: String
        private let login: @Sendable (String) -> String

        init(_ name: String, _ provider: String, _ login: @escaping @Sendable (String) -> String) {
            self.name = name
            self.provider = provider
            self.login = login
        }

        func user(_ folder: TemporaryFolder) -> String {
            "  \(name): {identity: demo, login: \(login(folder.file("login-" + name)))}\n"
        }
    }

    private static let kinds = [
        Kind("anonymous", "anon-user") { _ in "{anonymous: {}}" },
        Kind("password", "local-userpass") { "{email_password: {email: alice@example.com, password_file: \($0)}}" },
        Kind("api-key", "api-key") { "{api_key: {key_file: \($0)}}" },
        Kind("function", "custom-function") { "{function: {payload_file: \($0)}}" },
        Kind("jwt", "custom-token") { "{jwt: {token_file: \($0)}}" },
        Kind("facebook", "oauth2-facebook") { "{facebook: {access_token_file: \($0)}}" },
        Kind("google", "oauth2-google") { "{google: {id_token_file: \($0)}}" },
        Kind("google-code", "oauth2-google") { "{google: {auth_code_file: \($0)}}" },
        Kind("apple", "oauth2-apple") { "{apple: {id_token_file: \($0)}}" },
    ]

    private static func configuration(_ kinds: [Kind], _ identity: RawEndpoint, _ folder: TemporaryFolder) -> String {
        """
        identities:
          demo: {app_services: {app_id: \(AppServicesBench.app), base_url: "http://\(identity)"}}
        users:
        \(kinds.map { $0.user(folder) }.joined())routes:
          - {name: all, upstream: "http://\(identity)"}

        """
    }

    /// The kinds of login that this version has: `check` says of the others that they are not in it.
    private static func builtKinds(_ bench: AppServicesBench) async throws -> [Kind] {
        var built: [Kind] = []
        for kind in kinds {
            let path = try bench.folder.write("check.yaml", configuration([kind], bench.endpoint, bench.folder))
            let process = try ServerProcess("lanyard", ["check", "--config", path])
            let exit = try await process.waitForExit()
            let isMissing = process.log.contains("not in this version")
            #expect(exit == .code(isMissing ? 78 : 0), "\(kind.name): \(process.log)")
            if !isMissing { built.append(kind) }
        }
        return built
    }

    private static func start(
        _ kinds: [Kind], _ bench: AppServicesBench, _ recorder: RawEndpoint
    ) async throws -> (LanyardProcess, AdminClient) {
        let socket = bench.folder.file("admin.sock")
        let lanyard = try await LanyardProcess.start(
            configuration(kinds, recorder, bench.folder), admin: "{address: \"unix:\(socket)\"}")
        return (lanyard, AdminClient(endpoint: .unix(socket)))
    }

    @Test("every login that the configuration knows, its refresh and its logout are sent as core sends them")
    func sent() async throws {
        let bench = try await AppServicesBench.start()
        let (process, recorder) = try await bench.recorder()
        let kinds = try await Self.builtKinds(bench)
        #expect(kinds.count >= 3)
        let (lanyard, admin) = try await Self.start(kinds, bench, recorder)
        for kind in kinds {
            try await eventually("\(kind.name) is logged in; it said:\n\(lanyard.process.log)") {
                try await admin.call("GET", "/v1/users/\(kind.name)")["session"].string == "valid"
            }
            try await admin.call("POST", "/v1/users/\(kind.name)/refresh")
            try await admin.call("POST", "/v1/users/\(kind.name)/logout")
        }
        let report = try await AppServicesBench.report(of: recorder)
        for deviation in report["deviations"].array { Issue.record("\(deviation.string ?? "")") }
        let requests = report["requests"].array.compactMap(\.string)
        let session = "/api/client/v2.0/auth/session"
        let app = "/api/client/v2.0/app/\(AppServicesBench.app)"
        #expect(requests.first == "GET \(app)/location")
        #expect(requests.count(where: { $0 == "GET \(app)/location" }) == 1)
        #expect(requests.count(where: { $0 == "POST \(session)" }) == kinds.count)
        #expect(requests.count(where: { $0 == "DELETE \(session)" }) == kinds.count)
        for (provider, users) in Dictionary(grouping: kinds, by: \.provider) {
            #expect(
                requests.count(where: { $0 == "POST \(app)/auth/providers/\(provider)/login" }) == users.count,
                "\(provider)")
        }
        try await lanyard.process.terminate()
        try await process.terminate()
        try await bench.emulator.terminate()
    }

    @Test("a deviation that is planted in Lanyard's requests is found")
    func planted() async throws { try await Self.plant("session with an access token", findsOnly: "session token") }

    /// Changes one kind of request between Lanyard and the recorder.
    fileprivate static func plant(_ plant: String, findsOnly topic: String) async throws {
        let bench = try await AppServicesBench.start()
        let (process, recorder) = try await bench.recorder(plant: plant)
        let password = try #require(kinds.first { $0.name == "password" })
        let (lanyard, admin) = try await start([password], bench, recorder)
        try await eventually("alice is logged in; it said:\n\(lanyard.process.log)") {
            try await admin.call("GET", "/v1/users/password")["session"].string == "valid"
        }
        // The emulator may refuse what was planted.
        _ = try await admin.ask("POST", "/v1/users/password/refresh")
        _ = try await admin.ask("POST", "/v1/users/password/logout")
        let found = try await AppServicesBench.report(of: recorder)["deviations"].array.compactMap(\.string)
        #expect(!found.isEmpty && found.allSatisfy { $0.contains(": \(topic): ") }, "\(found)")
        try await lanyard.process.terminate()
        try await process.terminate()
        try await bench.emulator.terminate()
    }
}

/// Each kind of deviation: they cost 1.5 s of CPU each.
@Suite struct LongAppServicesRequestTests {
    @Test(
        "a deviation that is planted in Lanyard's requests is found",
        arguments: [
            ("login without a charset", "login fields"), ("device of another app", "device"),
            ("session with a body", "session body"), ("logout without a type", "logout fields"),
            ("location with a token", "location token"),
        ])
    func planted(_ plant: String, _ topic: String) async throws {
        try await AppServicesRequestTests.plant(plant, findsOnly: topic)
    }
}
