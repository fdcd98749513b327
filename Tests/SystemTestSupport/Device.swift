import Foundation
import Glibc
import LanyardFoundations
import TestSupport

/// A place where Lanyard keeps its sessions: configuration, key, passwords, store and admin socket. It outlives the processes that are
/// started on it, one after the other or two at once.
final class Device: Sendable {
    /// A user with a configured email and password.
    struct User: Sendable {
        let name: String
        var email: String { "\(name)@example.com" }
        var password: String { "\(name)-secret-word" }
    }

    static let alice = User(name: "alice"), bob = User(name: "bob")

    let folder: TemporaryFolder
    let account: ServerProcess.UnixUser
    private let emulator: EmulatorProcess
    private let clock: TestClock?
    private let users: [User]
    private let rotation: String
    private let rest: Guarded<String>

    /// - Parameters:
    ///   - users: configured ones; the emulator gets accounts for them.
    ///   - account: who the processes run as; the folder is theirs.
    ///   - rest: further sections of the configuration.
    ///   - clock: of the processes; nil: real time.
    static func make(
        _ emulator: EmulatorProcess, users: [User] = [alice, bob], rotation: String = "none",
        as account: ServerProcess.UnixUser = .same, rest: String = "", under clock: TestClock? = nil
    ) async throws -> Device {
        for user in users where user.email != EmulatorProcess.email {
            try await emulator.add(user.email, password: user.password)
        }
        try await emulator.control(
            "POST", "/users/password", #"{"user":"\#(alice.email)","password":"\#(alice.password)"}"#)
        return try Device(emulator, users, rotation, account, rest, clock)
    }

    private init(
        _ emulator: EmulatorProcess, _ users: [User], _ rotation: String, _ account: ServerProcess.UnixUser,
        _ rest: String, _ clock: TestClock?
    ) throws {
        folder = try TemporaryFolder(shared: true)
        self.emulator = emulator
        self.clock = clock
        self.users = users
        self.rotation = rotation
        self.account = account
        self.rest = Guarded(rest)
        try folder.write("key", String(repeating: "k", count: 64))
        for user in users { try folder.write(user.name + ".password", user.password + "\n") }
        try giveAway()
    }

    /// The folder and all in it become the processes' user's.
    func giveAway() throws {
        if case .nobody = account, getuid() == 0 { try folder.give(to: 65534, group: 65534) }
    }

    var storeFolder: String { folder.file("state") }
    var storePath: String { folder.file("state/sessions") }

    /// - Parameter name: tells processes apart that run at once: each has an admin socket of its own.
    func configuration(_ name: String = "one", upstream: RawEndpoint? = nil, identity: RawEndpoint? = nil) -> String {
        let target = upstream.map { "http://\($0)" } ?? "http://\(emulator.endpoint)/protected"
        let logins = users.map { user in
            "\(user.name): {identity: demo, login: {email_password: {email: \(user.email), "
                + "password_file: \(folder.file(user.name + ".password"))}}}"
        }
        let pinned = users.map { user in
            "  - {name: \(user.name), match: {path: /as/\(user.name)}, user: \(user.name), upstream: \"\(target)\"}\n"
        }
        return """
            listeners: [{address: "127.0.0.1:0"}]
            health: {address: "127.0.0.1:0"}
            admin: {address: "unix:\(socketPath(name))"}
            store: {path: \(storePath), key_file: \(folder.file("key"))}
            identities:
              demo:
                app_services: {app_id: \(EmulatorProcess.app), base_url: "http://\(identity ?? emulator.endpoint)", rotation: \(rotation)}
            users: {\(logins.joined(separator: ", "))}
            routes:
            \(pinned.joined())  - {name: all, upstream: "\(target)"}
            \(rest.withLock { $0 })
            """
    }

    /// Other further sections, for the processes that are started from now on.
    func set(rest: String) { self.rest.withLock { $0 = rest } }

    func socketPath(_ name: String = "one") -> String { folder.file(name + ".sock") }

    /// Starts the program without waiting for anything.
    ///
    /// - Parameters:
    ///   - launcher: a command that ends by becoming the program which its last arguments name.
    ///   - starter: who runs the launcher; the device's account unless given.
    func launch(
        _ name: String = "one", upstream: RawEndpoint? = nil, identity: RawEndpoint? = nil, launcher: [String] = [],
        binary: String? = nil, by starter: ServerProcess.UnixUser? = nil
    ) throws -> ServerProcess {
        let path = try folder.write(name + ".yaml", configuration(name, upstream: upstream, identity: identity))
        if case .nobody = account, getuid() == 0, chown(path, 65534, 65534) != 0 {
            throw TestFailure("chown \(path): errno \(errno)")
        }
        let command = launcher + [try binary ?? Products.path("lanyard"), "run", "--config", path]
        return try ServerProcess(command[0], Array(command.dropFirst()), under: clock, as: starter ?? account)
    }

    /// Starts the program and waits until it listens.
    func start(
        _ name: String = "one", upstream: RawEndpoint? = nil, identity: RawEndpoint? = nil, launcher: [String] = [],
        binary: String? = nil, by starter: ServerProcess.UnixUser? = nil
    ) async throws -> DeviceProcess {
        let process = try launch(
            name, upstream: upstream, identity: identity, launcher: launcher, binary: binary, by: starter)
        return try await DeviceProcess(process, AdminClient(endpoint: .unix(socketPath(name))), on: self)
    }
}

/// A Lanyard that runs on a `Device`.
final class DeviceProcess: Sendable {
    let process: ServerProcess
    /// Where clients connect.
    let data: RawEndpoint
    /// Where health is asked.
    let health: RawEndpoint
    let admin: AdminClient
    /// Its folder is there as long as the process is.
    private let device: Device?

    /// Waits until every listener is bound.
    init(_ process: ServerProcess, _ admin: AdminClient, on device: Device? = nil) async throws {
        self.process = process
        self.device = device
        self.admin = admin
        let data = try await process.event("listening") { $0["listener"].string == "data" }
        let health = try await process.event("listening") { $0["listener"].string == "health" }
        self.data = try RawEndpoint(data["address"].string ?? "")
        self.health = try RawEndpoint(health["address"].string ?? "")
    }

    /// Waits until `/readyz` says 200.
    func untilReady() async throws {
        do {
            try await eventually("lanyard is ready") {
                try await RawClient.ask(health, "GET", "/readyz").status == 200
            }
        } catch {
            throw TestFailure("\(error); it said:\n\(process.log)")
        }
    }

    /// A check of `/readyz`, by its name.
    func check(_ name: String) async throws -> JSON {
        let checks = try await RawClient.ask(health, "GET", "/readyz").json["checks"].array
        return checks.first { $0["name"].string == name } ?? .null
    }

    /// The account whose token a request on this path carried to the emulator's protected resource; nil: it was refused.
    func account(at path: String) async throws -> String? {
        let response = try await RawClient.ask(data, "GET", path)
        return response.status == 200 ? try response.json["user_id"].string : nil
    }

    /// All samples of `/metrics`.
    func metrics() async throws -> [ExpositionReader.Sample] {
        try ExpositionReader(try await RawClient.ask(health, "GET", "/metrics").body, openMetrics: false).samples
    }

    /// The value of one sample that has these labels; nil: there is none.
    func metric(_ name: String, _ labels: [String: String] = [:]) async throws -> Double? {
        try await metrics().first { sample in
            sample.name == name && labels.allSatisfy { sample.labels[$0.key] == $0.value }
        }?.value
    }

    /// Users whose intents were open when it started.
    var openIntents: [JSON] { process.lines.filter { $0.event == "store.intent.open" }.map(\.json) }

    /// SIGKILL, and its end.
    func kill() async throws {
        process.signal(SIGKILL)
        try await process.waitForExit()
    }
}
