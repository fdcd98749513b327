import Foundation
import Glibc
import TestSupport
import Testing

@testable import SystemTestSupport

/// "Any user of the machine can connect to the admin API over TCP."
@Suite struct AdminRefusalTests {
    private static let token = String(repeating: "t", count: 32)

    private struct Bench {
        let lanyard: LanyardProcess
        let admin: RawEndpoint
        let tokenFile: String
        let folder: TemporaryFolder

        static func start(under clock: TestClock? = nil) async throws -> Bench {
            let folder = try TemporaryFolder()
            let file = try folder.write("admin-token", token + "\n")
            let lanyard = try await LanyardProcess.start(
                "routes: [{name: all, upstream: \"http://127.0.0.1:1\"}]\n", token: "t",
                admin: "{address: \"127.0.0.1:0\", token_file: \(file)}", under: clock)
            let bound = try await lanyard.process.event("listening") { $0["listener"].string == "admin" }
            let bench = Bench(
                lanyard: lanyard, admin: try RawEndpoint(bound["address"].string ?? ""), tokenFile: file, folder: folder
            )
            try await eventually("the token counts") { try await bench.status(token) == 200 }
            return bench
        }

        func status(_ token: String) async throws -> Int {
            try await RawClient.ask(admin, "GET", "/v1/status", fields: [("Authorization", "Bearer \(token)")]).status
        }

        func refused(_ reason: String) async throws -> Double {
            let fields = [("Accept", "application/openmetrics-text; version=1.0.0")]
            let page = try await RawClient.ask(lanyard.health, "GET", "/metrics", fields: fields)
            let metrics = try ExpositionReader(page.body, openMetrics: true)
            return metrics["lanyard_admin_refused_total", ["reason": reason]] ?? -1
        }
    }

    @Test("20,000 refused calls leave a handful of lines; all are counted, and who has the token is answered at once")
    func flood() async throws {
        let clock = try TestClock()
        let bench = try await Bench.start(under: clock)
        // All calls come in the same second.
        clock.stop()
        let before = try await bench.refused("admin-token-required")
        let (admin, isServed) = (bench.admin, Milestone())
        // It lasts until the client with the token has been served.
        let flood = Task {
            let client = try RawClient(admin)
            let call = "GET /v1/status HTTP/1.1\r\nHost: \(admin)\r\n\r\n"
            var calls = 0
            while calls < 20_000 || !isServed.isSet {
                try client.send(String(repeating: call, count: 100))
                for _ in 0..<100 { #expect(try client.response().status == 401) }
                calls += 100
            }
            client.close()
            return calls
        }
        for _ in 0..<20 { #expect(try await bench.status(Self.token) == 200) }
        isServed.set()
        let calls = try await flood.value
        #expect(try await bench.refused("admin-token-required") == before + Double(calls))
        try await bench.lanyard.process.settle()
        let lines = bench.lanyard.process.lines.filter { $0.event == "admin.refused" }
        // Five a second, and one that counts the others.
        #expect((1...6).contains(lines.count), "\(lines.count) lines")
        clock.run()
        #expect(try await bench.lanyard.process.terminate() == .code(143))
        // One line more says how many were left out, by the end at the latest.
        let all = bench.lanyard.process.lines.filter { $0.event == "admin.refused" }
        let told = all.reduce(0) { $0 + 1 + ($1.json["left_out"].int ?? 0) }
        #expect(told >= calls, "\(told) told of in \(all.count) lines")
    }

    @Test("a flood of calls without a token keeps no other refusal out of the log")
    func otherReasons() async throws {
        let bench = try await Bench.start()
        let admin = bench.admin
        do {
            let client = try RawClient(admin)
            for _ in 0..<50 { #expect(try client.exchange("GET", "/v1/status", host: "\(admin)").status == 401) }
            client.close()
        }
        let page = [("Origin", "http://evil.test"), ("Authorization", "Bearer \(Self.token)")]
        #expect(try await RawClient.ask(admin, "GET", "/v1/status", fields: page).status == 403)
        do {
            let client = try RawClient(admin)
            #expect(try client.exchange("GET", "/v1/status", host: "evil.test").status == 421)
            client.close()
        }
        for reason in ["origin-not-allowed", "host-not-allowed"] {
            try await bench.lanyard.process.event("admin.refused") { $0["reason"].string == reason }
        }
        #expect(try await bench.lanyard.process.terminate() == .code(143))
        let lines = bench.lanyard.process.lines.filter { $0.event == "admin.refused" }.map(\.json)
        let ofTokens = lines.filter { $0["reason"].string == "admin-token-required" }
        #expect(ofTokens.count <= 7, "\(ofTokens)")
        #expect(ofTokens.reduce(0) { $0 + ($1["left_out"].int ?? 0) } >= 44, "\(ofTokens)")
    }

    @Test("a wrong token is answered later and later; the right one is not, whatever others guess")
    func guesses() async throws {
        let clock = try TestClock()
        let bench = try await Bench.start(under: clock)
        clock.stop()
        let admin = bench.admin
        let before = try await bench.refused("admin-token-required")
        let client = try RawClient(admin)
        var waits: [Duration] = []
        for number in 0..<8 {
            try client.send(
                "GET /v1/status HTTP/1.1\r\nHost: \(admin)\r\n"
                    + "Authorization: Bearer \(String(repeating: "x", count: 31))\(number)\r\n\r\n")
            let start = clock.elapsed
            // A client with the token waits for no other: it is answered while no time passes.
            #expect(try await bench.status(Self.token) == 200)
            try await clock.pass(until: "the guess is answered") { client.hasInput }
            waits.append(clock.elapsed - start)
            #expect(try client.response().status == 401)
        }
        client.close()
        #expect(waits == waits.sorted() && waits.last! > .milliseconds(900), "\(waits)")
        #expect(waits.reduce(.zero, +) > .seconds(2), "\(waits)")
        #expect(try await bench.refused("admin-token-required") == before + 8)
        // Who does not wait for the responses holds up no other client.
        for number in 0..<200 {
            let client = try RawClient(admin)
            try client.send("GET /v1/status HTTP/1.1\r\nHost: \(admin)\r\nAuthorization: Bearer \(number)\r\n\r\n")
            if number % 10 == 0 { #expect(try await bench.status(Self.token) == 200) }
            client.close()
        }
        #expect(try await bench.status(Self.token) == 200)
        clock.run()
        #expect(try await bench.lanyard.process.terminate() == .code(143))
    }

    @Test(
        "a token that no call could carry, or that is too short, is a fault at the start, 78, which says how to make one",
        arguments: [
            (String(repeating: "t", count: 31) + "\n", "fewer than 32 characters"),
            (String(repeating: "t", count: 20) + " " + String(repeating: "t", count: 20), "has a blank at byte 20"),
            (String(repeating: "t", count: 20) + "\n" + String(repeating: "t", count: 20), "has more than one line"),
            (String(repeating: "t", count: 1025), "more than 1024 characters"),
        ])
    func unfitAtStart(_ token: String, _ reason: String) async throws {
        let folder = try TemporaryFolder()
        let file = try folder.write("admin-token", token)
        let path = try folder.write(
            "lanyard.yaml",
            """
            listeners: [{address: "127.0.0.1:0"}]
            health: {address: "127.0.0.1:0"}
            admin:
              address: "127.0.0.1:0"
              token_file: \(file)
            identities: {fixed: {static: {token_file: \(try folder.write("token", "t"))}}}
            users: {alice: {identity: fixed}}
            routes: [{upstream: "http://127.0.0.1:1"}]
            """)
        for command in ["check", "run"] {
            let process = try ServerProcess("lanyard", [command, "--config", path])
            #expect(try await process.waitForExit() == .code(78))
            let said = process.log + process.output
            #expect(said.contains("lanyard.yaml:5:") && said.contains(file), "\(said)")
            #expect(said.contains(reason) && said.contains("openssl rand"), "\(said)")
        }
        try folder.write("admin-token", Self.token)
        let process = try ServerProcess("lanyard", ["check", "--config", path])
        #expect(try await process.waitForExit() == .code(0), "\(process.log)")
    }

    @Test("a token that becomes too short, or no token at all, shuts the API until a good one is there")
    func shortLater() async throws {
        let clock = try TestClock()
        let bench = try await Bench.start(under: clock)
        let short = "short"
        try bench.folder.write("admin-token", short)
        try await clock.pass(LanyardProcess.fileDelay)
        let line = try await bench.lanyard.process.event("admin.token.failed")
        #expect(line["reason"].string?.contains("fewer than 32 characters") == true, "\(line)")
        #expect(line["level"].string == "error")
        #expect(try await bench.status(Self.token) == 401)
        #expect(try await bench.status(short) == 401)
        let good = String(repeating: "g", count: 40)
        try bench.folder.write("admin-token", good)
        try await clock.pass(LanyardProcess.fileDelay)
        #expect(try await bench.status(good) == 200)
        #expect(try await bench.status(Self.token) == 401)
        #expect(!bench.lanyard.process.log.contains(good))
        #expect(try await bench.lanyard.process.terminate() == .code(143))
    }
}
