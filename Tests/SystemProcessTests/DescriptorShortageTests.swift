import Foundation
import LanyardFoundations
import TestSupport
import Testing

@testable import SystemTestSupport

/// Idle upstream connections are given up before a client, a request or an identity call goes without a descriptor.
@Suite(.enabled("needs prlimit of util-linux") { access("/usr/bin/prlimit", X_OK) == 0 })
struct DescriptorShortageTests {
    private static let routes = 8
    private static let clients = 45
    private static let evictions = "lanyard_upstream_idle_evictions_total"

    private static func routeList(to upstream: RawServer) -> String {
        let items = (0..<routes).map {
            // Each with connections of its own.
            "{name: r\($0), match: {path: /r\($0)}, upstream: \"http://\(upstream.endpoint)\", connections_max: \(500 + $0)}"
        }
        return "routes: [\(items.joined(separator: ", "))]\n"
    }

    private static func identity(_ emulator: EmulatorProcess) -> String {
        """
        identities:
          demo: {app_services: {app_id: \(EmulatorProcess.app), base_url: "http://\(emulator.endpoint)"}}
        users:
          alice:
            identity: demo
            login: {email_password: {email: \(EmulatorProcess.email), password_file: \(emulator.passwordFile)}}

        """
    }

    @Test(
        "many routes with idle connections leave descriptors for every request and for refreshes, and the log says so")
    func manyRoutes() async throws {
        let clock = try TestClock()
        let emulator = try await EmulatorProcess.start(tokens: "6s", under: clock)
        let arrived = Guarded(0)
        // No response before all requests of the round are there: each has a connection of its own.
        let upstream = try RawServer { _ in
            let number = arrived.withLock { count in
                count += 1
                return count
            }
            let all = (number + Self.clients - 1) / Self.clients * Self.clients
            try blockUntil("all requests of the round are there") { arrived.withLock { $0 } >= all }
            return .response()
        }
        let lanyard = try await LanyardProcess.start(
            Self.identity(emulator) + Self.routeList(to: upstream) + "shards: 2\n", under: clock,
            launcher: ["/usr/bin/prlimit", "--nofile=300:300"])
        try await lanyard.untilReady()
        let clients = try (0..<Self.clients).map { _ in try RawClient(lanyard.data) }
        let host = "\(lanyard.data)"
        clock.stop()
        let before = try await emulator.calls("refresh")
        // A refresh lies at 65 to 75 % of 6 s.
        for refreshes in 1...2 {
            for route in 0..<Self.routes {
                for client in clients { try client.send("GET /r\(route)/x HTTP/1.1\r\nHost: \(host)\r\n\r\n") }
                #expect(try clients.allSatisfy { try $0.response().status == 200 })
            }
            try await clock.pass(.seconds(4.5))
            #expect(try await emulator.calls("refresh") == before + refreshes)
        }
        clock.run()
        #expect(lanyard.process.log(of: "session.refresh.failed").isEmpty)
        #expect(try await Self.value(Self.evictions, lanyard) > 0)
        try await lanyard.process.event("upstream.descriptors_short")
        clients.forEach { $0.close() }
        #expect(try await lanyard.process.terminate() == .code(143))
    }

    @Test("a request that finds no descriptor for its upstream connection gets that of an idle one of another route")
    func dial() async throws {
        let upstream = try RawServer()
        let lanyard = try await Self.start(upstream)
        let client = try RawClient(lanyard.data)
        let before = try await Self.leaveIdle(4, on: lanyard)
        let data = lanyard.data
        #expect(try client.exchange("GET", "/r7/first", host: "\(data)").status == 200)
        let fillers = try await Starving.starve(lanyard)
        defer { fillers.forEach { $0.close() } }
        for route in [1, 2, 3] {
            let response = try client.exchange("GET", "/r\(route)/x", host: "\(data)")
            #expect(response.status == 200, "\(response.bodyText)")
        }
        let line = try await lanyard.process.event("upstream.descriptors_short")
        #expect((line["closed"].int ?? 0) > 0)
        #expect(try await Self.value(Self.evictions, lanyard, label: "reason=\"shortage\"") > 0)
        (before + [client]).forEach { $0.close() }
        #expect(try await lanyard.process.terminate() == .code(143))
    }

    @Test("a client for whom there is no descriptor gets that of an idle upstream connection, without a pause")
    func accept() async throws {
        let upstream = try RawServer()
        let lanyard = try await Self.start(upstream)
        let before = try await Self.leaveIdle(8, on: lanyard)
        let fillers = try await Starving.starve(lanyard)
        defer { fillers.forEach { $0.close() } }
        let data = lanyard.data
        do {
            let clients = try (0..<4).map { _ in try RawClient(data) }
            for client in clients { #expect(try client.exchange("GET", "/r0/x", host: "\(data)").status == 200) }
            clients.forEach { $0.close() }
        }
        before.forEach { $0.close() }
        #expect(lanyard.process.log(of: "listener.paused").isEmpty)
        #expect(try await Self.value(Self.evictions, lanyard, label: "reason=\"shortage\"") > 0)
        #expect(try await lanyard.process.terminate() == .code(143))
    }

    @Test("a refresh for which there is no descriptor gets that of an idle upstream connection, and succeeds at once")
    func refresh() async throws {
        let clock = try TestClock()
        let emulator = try await EmulatorProcess.start(tokens: "8s", under: clock)
        let upstream = try RawServer()
        let lanyard = try await LanyardProcess.start(
            Self.identity(emulator) + Self.routeList(to: upstream) + "shards: 2\n", under: clock)
        try await lanyard.untilReady()
        clock.stop()
        let clients = try await Self.leaveIdle(4, on: lanyard)
        let before = try await emulator.calls("refresh")
        let fillers = try await Starving.starve(lanyard)
        defer { fillers.forEach { $0.close() } }
        try await clock.pass(until: "a refresh is due", atMost: .seconds(20), grain: .milliseconds(200)) {
            try await emulator.calls("refresh") > before
        }
        try await settled(lanyard.process)
        #expect(lanyard.process.log(of: "session.refresh.failed").isEmpty)
        #expect(try await Self.value(Self.evictions, lanyard, label: "reason=\"shortage\"") > 0)
        clients.forEach { $0.close() }
        clock.run()
        #expect(try await lanyard.process.terminate() == .code(143))
    }

    @Test("a store finds descriptors for its locks and files in place of idle connections; refresh tokens are stored")
    func storedRefresh() async throws {
        let clock = try TestClock()
        let emulator = try await EmulatorProcess.start(
            tokens: "8s", under: clock, arguments: ["--rotation", "one_use"])
        let upstream = try RawServer()
        let folder = try TemporaryFolder()
        let key = try folder.write("key", String(repeating: "k", count: 32))
        let identity = Self.identity(emulator).replacing("app_services: {", with: "app_services: {rotation: one_use, ")
        let lanyard = try await LanyardProcess.start(
            """
            \(identity)\(Self.routeList(to: upstream))shards: 2
            store: {path: \(folder.file("store/sessions")), key_file: \(key)}
            """, under: clock)
        try await lanyard.untilReady()
        clock.stop()
        let clients = try await Self.leaveIdle(8, on: lanyard)
        let before = try await emulator.calls("refresh")
        let fillers = try await Starving.starve(lanyard)
        defer { fillers.forEach { $0.close() } }
        // The second refresh opens the files again.
        try await clock.pass(until: "two refreshes are due", atMost: .seconds(20), grain: .milliseconds(200)) {
            try await emulator.calls("refresh") >= before + 2
        }
        #expect(try await Self.value(Self.evictions, lanyard, label: "reason=\"shortage\"") > 0)
        clients.forEach { $0.close() }
        clock.run()
        #expect(try await lanyard.process.terminate() == .code(143))
        for event in ["session.refresh.failed", "store.lock_failed", "store.write_failed"] {
            #expect(lanyard.process.log(of: event) == "")
        }
    }

    private static func start(_ upstream: RawServer) async throws -> LanyardProcess {
        let lanyard = try await LanyardProcess.start(routeList(to: upstream) + "shards: 2\n", token: "a-token")
        try await lanyard.untilReady()
        return lanyard
    }

    /// Clients come, each of which leaves an idle connection of route 0 behind.
    ///
    /// - Returns: the clients. They stay: were their descriptors free, the limit would be set below those of the idle connections.
    private static func leaveIdle(_ count: Int, on lanyard: LanyardProcess) async throws -> [RawClient] {
        let data = lanyard.data
        var clients = try (0..<count).map { _ in try RawClient(data) }
        for client in clients { try client.send("GET /r0/x HTTP/1.1\r\nHost: \(data)\r\n\r\n") }
        for client in clients { #expect(try client.response().status == 200) }
        let idle = try await value("lanyard_upstream_connections", lanyard, label: "state=\"idle\"")
        #expect(idle > 0)
        // A probe's connection that was closed late leaves its number free, below those of the idle connections.
        clients += try await Starving.fillHoles(of: lanyard)
        return clients
    }

    /// The sum of a metric over all lines, or those that hold `label`.
    private static func value(_ metric: String, _ lanyard: LanyardProcess, label: String? = nil) async throws -> Int {
        let page = try await RawClient.ask(lanyard.health, "GET", "/metrics").bodyText
        let lines = page.split(separator: "\n").filter { line in
            line.hasPrefix(metric) && (label.map { line.contains($0) } ?? true)
        }
        return lines.reduce(0) { $0 + Int($1.split(separator: " ").last.flatMap { Double($0) } ?? 0) }
    }
}
