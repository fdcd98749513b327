import Foundation
import TestSupport
import Testing

@testable import SystemTestSupport

@Suite(.enabled("only root sees the descriptors of a process that is not dumpable") { DescriptorTable.isReadable })
struct HealthWithoutDescriptorsTests {
    @Test("a token file that changes while there is no descriptor is read later; until then its old token holds")
    func changedFile() async throws {
        let clock = try TestClock()
        let upstream = try RawServer { .response(body: $0.message["Authorization"] ?? "none") }
        let lanyard = try await LanyardProcess.start(
            "routes: [{name: all, upstream: \"http://\(upstream.endpoint)\"}]", token: "old-token", under: clock)
        try await lanyard.untilReady()
        let client = try RawClient(lanyard.data)
        func bearer() async throws -> String {
            try client.exchange("GET", "/", host: "\(lanyard.data)").bodyText
        }
        #expect(try await bearer() == "Bearer old-token")
        let fillers = try await Starving.starve(lanyard)
        defer { fillers.forEach { $0.close() } }
        try lanyard.folder.write("token", "new-token")
        clock.stop()
        // Two looks at the file, and more. Nothing gives a descriptor back before the probes, so none of them can read it.
        for _ in 0..<5 {
            try await clock.pass(.seconds(1))
            #expect(try await bearer() == "Bearer old-token")
        }
        // A probe's descriptor, just given back, may do for a look: from then on it is the new token, and never anything else.
        var isNew = false
        for _ in 0..<20 {
            #expect(try await lanyard.readiness().status == 200)
            let token = try await bearer()
            #expect(token == "Bearer new-token" || !isNew && token == "Bearer old-token", "\(token)")
            isNew = isNew || token == "Bearer new-token"
            try await clock.pass(.milliseconds(100))
        }
        try Starving.limit(lanyard, 1024)
        try await clock.pass(.seconds(3))
        #expect(try await bearer() == "Bearer new-token")
        clock.run()
        #expect(try await lanyard.process.terminate() == .code(143))
    }

    @Test("health answers when clients have used up every descriptor")
    func exhausted() async throws {
        let folder = try TemporaryFolder()
        let token = try folder.write("token", "a-token")
        let lanyard = try await LanyardProcess.start(
            """
            identities: {fixed: {static: {token_file: \(token)}}}
            users: {alice: {identity: fixed}}
            routes: [{name: all, upstream: "http://127.0.0.1:9"}]
            """)
        try await lanyard.untilReady()
        let fillers = try await Starving.starve(lanyard)
        defer { fillers.forEach { $0.close() } }
        let clients = try (0..<30).map { _ in try RawClient(lanyard.data) }
        try await lanyard.process.event("listener.paused")
        for _ in 0..<20 {
            #expect(try await RawClient.ask(lanyard.health, "GET", "/livez").status == 200)
            #expect(try await lanyard.readiness().status == 200)
        }
        // Several at once, as a probe and a scraper may come; and kept connections give theirs back.
        do {
            let both = try (0..<3).map { _ in try RawClient(lanyard.health) }
            for client in both { try client.send("GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n") }
            for client in both { #expect(try client.response().status == 200) }
            both.forEach { $0.close() }
        }
        #expect(try await lanyard.readiness().status == 200)
        clients.forEach { $0.close() }
        #expect(try await lanyard.process.terminate() == .code(143))
    }

    @Test("the admin API responds when clients have used up every descriptor, and says so with numbers")
    func admin() async throws {
        let sockets = try TemporaryFolder()
        let admin = RawEndpoint.unix(sockets.file("admin.sock"))
        let lanyard = try await LanyardProcess.start(
            "routes: [{name: all, upstream: \"http://127.0.0.1:9\"}]", token: "a-token",
            admin: "{address: \"\(admin)\"}")
        try await lanyard.untilReady()
        let fillers = try await Starving.starve(lanyard)
        defer { fillers.forEach { $0.close() } }
        let clients = try (0..<30).map { _ in try RawClient(lanyard.data) }
        try await lanyard.process.event("listener.paused")
        for _ in 0..<20 {
            #expect(try await RawClient.ask(admin, "GET", "/v1/status").status == 200)
            #expect(try await lanyard.readiness().status == 200)
        }
        // While calls hold descriptors, health has its own.
        do {
            let calls = try (0..<3).map { _ in try RawClient(admin) }
            for call in calls { #expect(try call.exchange("GET", "/v1/users", host: "localhost").status == 200) }
            #expect(try await lanyard.readiness().status == 200)
            calls.forEach { $0.close() }
        }
        let status = try await CommandRun(["status", "--admin", "\(admin)"])
        #expect(status.exit == .code(0), "\(status.errors)")
        #expect(
            status.output.hasPrefix("FAILING: ") && status.output.contains("no descriptor was left, "),
            "\(status.output)")
        #expect(status.output.contains(/now \d+ of \d+ descriptors are open/), "\(status.output)")
        clients.forEach { $0.close() }
        #expect(try await lanyard.process.terminate() == .code(143))
    }

    @Test("no client of the request path gets a descriptor that health keeps back, however long a probe stays")
    func reserveHolds() async throws {
        let clock = try TestClock()
        let lanyard = try await LanyardProcess.start(
            "routes: [{name: all, upstream: \"http://127.0.0.1:9\"}]", token: "a-token", under: clock)
        try await lanyard.untilReady()
        let fillers = try await Starving.starve(lanyard)
        defer { fillers.forEach { $0.close() } }
        let (data, health) = (lanyard.data, lanyard.health)
        let clients = try (0..<30).map { _ in try RawClient(data) }
        try await lanyard.process.event("listener.paused")
        do {
            var probes: [RawClient] = []
            for _ in 0..<4 {
                probes.append(try RawClient(health))
                // Between these the acceptor of the request path tries several times.
                for _ in 0..<5 {
                    for probe in probes {
                        #expect(try probe.exchange("GET", "/livez", host: "127.0.0.1").status == 200)
                    }
                    try await clock.pass(.milliseconds(100))
                }
            }
            probes.forEach { $0.close() }
        }
        clients.forEach { $0.close() }
        #expect(try await lanyard.process.terminate() == .code(143))
    }

    @Test("a probe that not even the reserve lets in is answered when there are descriptors again")
    func after() async throws { _ = try await Self.waits(rounds: 1) }

    /// How long, in seconds, a probe that waits for descriptors is not answered when there are some again.
    static func waits(rounds: Int) async throws -> [Double] {
        let lanyard = try await LanyardProcess.start(
            "routes: [{name: all, upstream: \"http://127.0.0.1:9\"}]", token: "a-token")
        try await lanyard.untilReady()
        var waits: [Double] = []
        for _ in 0..<rounds {
            // Below every descriptor of the reserve: to close one of them is no help.
            try Starving.limit(lanyard, 3)
            let probe = try RawClient(lanyard.health)
            defer { probe.close() }
            probe.socket.stampArrivals()
            try probe.send("GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
            try await lanyard.process.settle()
            #expect(!probe.hasInput)
            try Starving.limit(lanyard, 1024)
            let start = Date().timeIntervalSince1970
            #expect(try probe.response().status == 200)
            waits.append((probe.reader.lastArrival ?? Date().timeIntervalSince1970) - start)
        }
        #expect(try await lanyard.process.terminate() == .code(143))
        return waits
    }
}

@Suite(.enabled("only root sees the descriptors of a process that is not dumpable") { DescriptorTable.isReadable })
struct AloneHealthWithoutDescriptorsTests {
    @Test("a probe that not even the reserve lets in is answered within 40 ms when there are descriptors again")
    func soon() async throws {
        let waits = try await HealthWithoutDescriptorsTests.waits(rounds: 5)
        // Health has 100 ms in all, 30 of which are gone.
        #expect(try #require(waits.min()) < 0.04, "\(waits)")
    }
}
