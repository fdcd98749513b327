import Foundation
import TestSupport

/// Lanyard with an admin socket, before an emulator with several accounts.
final class UsersBench: Sendable {
    static let password = "correct-horse"

    let emulator: EmulatorProcess
    let lanyard: LanyardProcess
    let admin: RawEndpoint
    /// Stands between Lanyard and the identity service.
    let gate: FaultGate
    private let folder: TemporaryFolder

    /// Alice is configured with her password, kiosk is anonymous, carol is configured without a login, robot is static; one route follows
    /// the active user, `/bob` pins bob, whom nothing configures. `rest` may begin with further routes.
    static func start(
        _ rest: String = "active_user: alice\n", tokens: String = "1800s", under clock: TestClock? = nil
    ) async throws -> UsersBench {
        let emulator = try await EmulatorProcess.start(tokens: tokens, under: clock)
        for name in ["bob", "carol", "dave"] {
            try await emulator.control(
                "POST", "/users", #"{"email":"\#(name)@example.com","password":"\#(password)"}"#)
        }
        let gate = try FaultGate(before: emulator.endpoint)
        clock?.watch(gate.threads)
        let folder = try TemporaryFolder()
        try folder.write("robot", "robot-token")
        let path = folder.file("admin.sock")
        let lanyard = try await LanyardProcess.start(
            """
            identities:
              demo: {app_services: {app_id: \(EmulatorProcess.app), base_url: "http://\(gate.endpoint)"}}
              fixed: {static: {token_file: \(folder.file("robot"))}}
            users:
              alice:
                identity: demo
                login: {email_password: {email: \(EmulatorProcess.email), password_file: \(emulator.passwordFile)}}
              carol: {identity: demo}
              robot: {identity: fixed}
            routes:
              - {name: all, upstream: "http://\(emulator.endpoint)", body_bytes_max: 1MiB}
              - {name: bob, match: {path: /bob}, upstream: "http://\(emulator.endpoint)/protected", user: bob}

            """ + rest, admin: "{address: \"unix:\(path)\"}", under: clock)
        return UsersBench(emulator, lanyard, .unix(path), gate, folder)
    }

    private init(
        _ emulator: EmulatorProcess, _ lanyard: LanyardProcess, _ admin: RawEndpoint, _ gate: FaultGate,
        _ folder: TemporaryFolder
    ) {
        self.emulator = emulator
        self.lanyard = lanyard
        self.admin = admin
        self.gate = gate
        self.folder = folder
    }

    // MARK: Admin calls

    func call(_ method: String, _ path: String, _ body: String? = nil) async throws -> RawMessage {
        try await RawClient.ask(admin, method, "/v1" + path, body: body)
    }

    static func email(_ name: String, password: String = password) -> String {
        #"{"email_password":{"email":"\#(name)@example.com","password":"\#(password)"}}"#
    }

    func add(_ name: String, _ credential: String) async throws -> RawMessage {
        try await call("POST", "/users", #"{"name":"\#(name)","identity":"demo","credential":\#(credential)}"#)
    }

    /// A new user with the account of the same name, who must come.
    func add(_ name: String) async throws {
        let response = try await add(name, Self.email(name))
        guard response.status == 201 else { throw TestFailure("\(name): \(response.bodyText)\n\(lanyard.process.log)") }
    }

    func status() async throws -> JSON { try await call("GET", "/status").json }

    /// All users with their states, such as `alice:active`.
    func users() async throws -> [String] {
        try await call("GET", "/users").json["users"].array.map {
            "\($0["name"].string ?? "-"):\($0["state"].string ?? "-")"
        }
    }

    /// Waits until a user is in a state.
    func until(_ name: String, is session: String) async throws {
        do {
            try await eventually("\(name) is \(session)") {
                try await call("GET", "/users/\(name)").json["session"].string == session
            }
        } catch {
            throw TestFailure("\(error); it said:\n\(lanyard.process.log)")
        }
    }

    /// Waits until alice is logged in; `/readyz` waits for bob as well.
    func untilAlice() async throws { try await until("alice", is: "valid") }

    /// The type of a problem without what all types begin with; `none` for another response.
    static func problem(_ response: RawMessage) -> String {
        let type = (try? response.json["type"].string) ?? "none"
        return String(type.trimmingPrefix("urn:lanyard:problem:"))
    }

    // MARK: Requests

    /// Whose token a request carries that goes through `path`: the account's id, or the problem.
    func bearer(_ path: String = "/protected/") async throws -> String {
        let response = try await lanyard.get(path)
        return try response.status == 200 ? response.json["user_id"].string ?? "nobody" : Self.problem(response)
    }

    /// The account's id in the access token that a request carries.
    static func subject(of request: RawMessage) throws -> String? {
        let parts = (request["Authorization"] ?? "").split(separator: ".")
        guard parts.count == 3 else { return nil }
        var text = parts[1].replacing("-", with: "+").replacing("_", with: "/")
        text += String(repeating: "=", count: (4 - text.count % 4) % 4)
        guard let claims = Data(base64Encoded: String(text)) else { return nil }
        return try JSON(Array(claims))["sub"].string
    }

    /// The account's id of a user, as status tells it.
    func account(_ name: String) async throws -> String {
        try await call("GET", "/users/\(name)").json["user_id"].string ?? "none"
    }
}
