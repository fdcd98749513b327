import Foundation
import TestSupport

/// Lanyard with a store, before two identity services, whose users and identities the test writes anew.
final class ReloadedUsers: Sendable {
    static let names = ["alice", "bob", "carol"]

    /// Both know the accounts of all names, each with the same password.
    let first: EmulatorProcess
    let second: EmulatorProcess
    let folder: TemporaryFolder

    private let clock: TestClock?

    /// - Parameter clock: of the services and of Lanyard; nil: real time.
    init(tokens: String = "1800s", under clock: TestClock? = nil) async throws {
        self.clock = clock
        first = try await EmulatorProcess.start(tokens: tokens, under: clock)
        second = try await EmulatorProcess.start(tokens: tokens, under: clock)
        folder = try TemporaryFolder()
        try folder.write("key", String(repeating: "k", count: 64))
        try folder.write("robot", "robot-token")
        for name in Self.names { try folder.write("\(name).password", Self.password(name) + "\n") }
        for emulator in [first, second] {
            for name in Self.names { try await emulator.add("\(name)@example.com", password: Self.password(name)) }
            try await emulator.control(
                "POST", "/users/password", #"{"user":"alice@example.com","password":"\#(Self.password("alice"))"}"#)
        }
    }

    static func password(_ name: String) -> String { "\(name)-secret-word" }

    // MARK: The configuration

    /// An entry of `identities`.
    func identity(_ name: String = "demo", at emulator: EmulatorProcess, more: String = "") -> String {
        "\(name): {app_services: {app_id: \(EmulatorProcess.app), base_url: \"http://\(emulator.endpoint)\"}\(more)}"
    }

    /// An entry of `users` with a login.
    ///
    /// - Parameter password: the name of the file; nil: an operator logs in.
    func user(_ name: String, identity: String = "demo", password: String? = "") -> String {
        let file = password.map { folder.file($0.isEmpty ? "\(name).password" : $0) }
        let login = file.map { ", login: {email_password: {email: \(name)@example.com, password_file: \($0)}}" }
        return "\(name): {identity: \(identity)\(login ?? "")}"
    }

    /// Writes the configuration. Each name has a route that pins it.
    func configure(_ users: [String], identities: [String]? = nil, rest: String = "") throws {
        let upstream = "http://\(first.endpoint)/protected"
        let routes = Self.names.map {
            "{name: \($0), match: {path: /as/\($0)}, user: \($0), upstream: \"\(upstream)\"}"
        }
        try folder.write(
            "lanyard.yaml",
            """
            listeners: [{address: "127.0.0.1:0"}]
            health: {address: "127.0.0.1:0"}
            admin: {address: "unix:\(folder.file("admin.sock"))"}
            store: {path: \(folder.file("state/sessions")), key_file: \(folder.file("key"))}
            identities: {\((identities ?? [identity(at: first)]).joined(separator: ", "))}
            users: {\(users.joined(separator: ", "))}
            routes: [\(routes.joined(separator: ", ")), {name: all, upstream: "\(upstream)"}]
            log: {access: false}
            \(rest)

            """)
    }

    // MARK: The process

    func start() async throws -> DeviceProcess {
        let process = try ServerProcess(
            try Products.path("lanyard"), ["run", "--config", folder.file("lanyard.yaml")], under: clock)
        return try await DeviceProcess(process, AdminClient(endpoint: .unix(folder.file("admin.sock"))))
    }

    /// What a restart with the present configuration makes of a copy of the store. The running process is not touched.
    func shownUsersAfterRestart() async throws -> [String] {
        let copy = folder.file("copy")
        try? FileManager.default.removeItem(atPath: copy)
        try FileManager.default.copyItem(atPath: folder.file("state"), toPath: copy)
        let configuration = try String(contentsOfFile: folder.file("lanyard.yaml"), encoding: .utf8)
            .replacing(folder.file("state"), with: copy).replacing("admin.sock", with: "copy.sock")
        try folder.write("copy.yaml", configuration)
        let process = try ServerProcess(try Products.path("lanyard"), ["run", "--config", folder.file("copy.yaml")])
        let restarted = try await DeviceProcess(process, AdminClient(endpoint: .unix(folder.file("copy.sock"))))
        try await eventually("no user is in a transition") {
            try await restarted.admin.status().users.allSatisfy { !["logging_in", "refreshing"].contains($0.session) }
        }
        let shown = try await Self.shownUsers(restarted)
        try await restarted.kill()
        return shown
    }

    /// What an operator sees of each user that a restart must show as well.
    static func shownUsers(_ lanyard: DeviceProcess) async throws -> [String] {
        let status = try await lanyard.admin.call("GET", "/v1/status")
        let users = status["users"].array.map { user in
            ["name", "identity", "user_id", "state", "session"].map { user[$0].string ?? "-" }.joined(separator: " ")
        }
        return users + ["active: \(status["active_user"].string ?? "none")"]
    }

    /// Waits until each user's state is no transition.
    static func settle(_ lanyard: DeviceProcess) async throws {
        do {
            try await eventually("every user has its state") {
                let users = try await lanyard.admin.status().users
                return users.allSatisfy { !["logging_in", "refreshing"].contains($0.session) && $0.lastError == nil }
                    && users.allSatisfy { $0.session != "logged_out" || $0.name == "carol" }
            }
        } catch {
            throw TestFailure("\(error): \(try await shownUsers(lanyard)); it said:\n\(lanyard.process.log)")
        }
    }

    static func reload(_ lanyard: DeviceProcess) async throws -> RawMessage {
        try await lanyard.admin.ask("POST", "/v1/reload")
    }

    /// The keys that a reload has applied.
    static func applied(_ lanyard: DeviceProcess) async throws -> [String] {
        try await lanyard.admin.call("POST", "/v1/reload")["applied"].array.compactMap(\.string)
    }

    /// How many descriptors the process has open.
    static func descriptors(of lanyard: DeviceProcess) throws -> Int {
        try FileManager.default.contentsOfDirectory(atPath: "/proc/\(lanyard.process.pid)/fd").count
    }

    /// All calls of the client API.
    static func calls(_ emulator: EmulatorProcess) async throws -> [String: Int] {
        var calls: [String: Int] = [:]
        for route in ["location", "login", "refresh", "logout"] { calls[route] = try await emulator.calls(route) }
        return calls
    }
}
