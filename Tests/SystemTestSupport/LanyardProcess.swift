import Glibc
import TestSupport
import Testing

/// The built `lanyard run` with a configuration of the test's own, on ports of its own.
final class LanyardProcess: Sendable {
    /// So long after a change of secret files its content is in use, or the failure is logged: a look every 2 s, a second one 200 ms later,
    /// and for files of TLS another 2.7 s in which none of them changes.
    static let fileDelay = Duration.seconds(5)
    /// The same of a static token's file that is empty: the former token serves for 10 s more, and the file is looked at again then.
    static let emptyFileDelay = fileDelay + .seconds(15)

    /// How many shards a program has that asks for no number (`LANYARD_TEST_SHARDS`); nil: as many as it takes itself.
    static let shards = getenv("LANYARD_TEST_SHARDS").flatMap { Int(String(cString: $0)) }

    let process: ServerProcess
    /// Where clients connect.
    let data: RawEndpoint
    /// Where health is asked.
    let health: RawEndpoint
    /// Where the configuration and the file `token` are.
    let folder: TemporaryFolder

    /// Starts it and waits until both listeners are bound; not until it is ready.
    ///
    /// - Parameters:
    ///   - yaml: everything but `listeners`, `health` and `admin`.
    ///   - token: of the one user, alice; `yaml` then has neither `identities` nor `users`.
    ///   - listener: the keys of the one listener.
    ///   - admin: the value of `admin`; off by default, since there is one default place for all processes of a user.
    ///   - clock: its clock; nil: real time.
    ///   - launcher: a command that ends by becoming the program which its last arguments name.
    ///   - binary: another build of the program.
    static func start(
        _ yaml: String, token: String? = nil, listener: String = "address: \"127.0.0.1:0\"", admin: String = "off",
        under clock: TestClock? = nil, cpus: String? = nil, launcher: [String] = [], binary: String? = nil
    ) async throws -> LanyardProcess {
        let folder = try TemporaryFolder()
        var accounts = ""
        if let token {
            let file = try folder.write("token", token)
            accounts = "identities: {fixed: {static: {token_file: \(file)}}}\nusers: {alice: {identity: fixed}}\n"
        }
        let path = try folder.write(
            "lanyard.yaml",
            """
            listeners: [{\(listener)}]
            health: {address: "127.0.0.1:0"}
            admin: \(admin)

            """ + accounts + yaml + (yaml.contains("log:") ? "" : "\nlog: {access: false}\n")
                + (shards.flatMap { yaml.contains("shards:") ? nil : "\nshards: \($0)\n" } ?? ""))
        let command = launcher + [try binary ?? Products.path("lanyard"), "run", "--config", path]
        let process = try ServerProcess(command[0], Array(command.dropFirst()), under: clock, cpus: cpus)
        let data = try await process.event("listening") { $0["listener"].string == "data" }
        let health = try await process.event("listening") { $0["listener"].string == "health" }
        return LanyardProcess(
            process, try RawEndpoint(data["address"].string ?? ""), try RawEndpoint(health["address"].string ?? ""),
            folder)
    }

    /// Alice has a fixed token, and everything goes to one upstream; waits until it is ready.
    ///
    /// - Parameters:
    ///   - upstream: as a route names it.
    ///   - route: further keys of the route, such as `host: client`.
    ///   - rest: further sections.
    ///   - listener: its keys.
    static func start(
        before upstream: String, route: String = "", rest: String = "",
        listener: String = "address: \"127.0.0.1:0\"", under clock: TestClock? = nil, cpus: String? = nil,
        launcher: [String] = []
    ) async throws -> LanyardProcess {
        let keys = route.isEmpty ? "" : ", " + route
        let lanyard = try await start(
            "routes: [{name: all, upstream: \"\(upstream)\"\(keys)}]\n" + rest, token: "stream-token",
            listener: listener, under: clock, cpus: cpus, launcher: launcher)
        try await lanyard.untilReady()
        return lanyard
    }

    /// The configuration of one user, alice, in front of one upstream.
    ///
    /// - Parameters:
    ///   - login: hers, in YAML; nil: her password.
    ///   - identity: where the identity service is reached, an emulator or a gate before one.
    ///   - upstream: what every path is forwarded to.
    static func start(
        _ emulator: EmulatorProcess, login: String? = nil, identity: RawEndpoint? = nil, upstream: RawEndpoint? = nil,
        under clock: TestClock? = nil
    ) async throws -> LanyardProcess {
        let password = "email_password: {email: \(EmulatorProcess.email), password_file: \(emulator.passwordFile)}"
        return try await start(
            """
            identities:
              demo: {app_services: {app_id: \(EmulatorProcess.app), base_url: "http://\(identity ?? emulator.endpoint)"}}
            users:
              alice:
                identity: demo
                login: {\(login ?? password)}
            routes:
              - {name: all, match: {path: /}, upstream: "http://\(upstream ?? emulator.endpoint)"}
            """, under: clock)
    }

    private init(_ process: ServerProcess, _ data: RawEndpoint, _ health: RawEndpoint, _ folder: TemporaryFolder) {
        self.process = process
        self.data = data
        self.health = health
        self.folder = folder
    }

    /// One request on a connection of its own.
    func get(_ path: String) async throws -> RawMessage {
        try await RawClient.ask(data, "GET", path)
    }

    /// The response of `/readyz`.
    func readiness() async throws -> RawMessage { try await RawClient.ask(health, "GET", "/readyz") }

    /// The value of a metric without labels.
    func metric(_ name: String) async throws -> Int {
        let page = try await RawClient.ask(health, "GET", "/metrics").body
        let samples = try ExpositionReader(page, openMetrics: false).samples
        return Int(try #require(samples.first { $0.name == name && $0.labels.isEmpty }?.value, "\(name)"))
    }

    /// Waits until `/readyz` says 200.
    func untilReady() async throws {
        do {
            try await eventually("lanyard is ready") { try await readiness().status == 200 }
        } catch {
            throw TestFailure("\(error); it said:\n\(process.log)")
        }
    }

    /// Passes the time until `/readyz` says 200, such as that to the next look at a file.
    func untilReady(passing clock: TestClock) async throws {
        do {
            try await clock.pass(until: "lanyard is ready", atMost: .seconds(600), grain: .milliseconds(500)) {
                try await readiness().status == 200
            }
        } catch {
            throw TestFailure("\(error); it said:\n\(process.log)")
        }
    }
}
