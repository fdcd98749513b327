import TestSupport
import Testing

@testable import SystemTestSupport

/// "The upstream no longer takes our token, long before it ends."
@Suite struct RefusedTokenTests {
    @Test(
        "two hundred refused at once lead to one refresh; each POST reaches the upstream twice, each client sees one 200"
    )
    func crowd() async throws {
        let clients = 200
        let bench = try await ReplayBench.start(refresh: "cooldown: 10s")
        let waiting = Tally()
        bench.refuses {
            // All are refused the same token: none is answered before the last has come.
            waiting.add()
            do {
                try blockUntil("all \(clients) have come") { waiting.value >= clients }
            } catch { Issue.record(error) }
            return .response(401, "Unauthorized", body: "no")
        }
        let statuses = try { () throws -> [String] in
            let sockets = try (0..<clients).map { _ in try RawClient(bench.lanyard.data) }
            for (number, client) in sockets.enumerated() {
                let body = "body \(number)"
                try client.send(
                    "POST /\(number) HTTP/1.1\r\nHost: localhost\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)")
            }
            return try sockets.map { client in
                defer { client.close() }
                let response = try client.reader.readResponse(to: "POST")
                return "\(response.status) \(response.bodyText.prefix(4))"
            }
        }()
        #expect(statuses == Array(repeating: "200 POST", count: clients))
        #expect(try await bench.refreshes() == 1)
        let sent = Dictionary(grouping: bench.upstream.requests, by: \.target)
        #expect(sent.count == clients && sent.values.allSatisfy { $0.count == 2 && Set($0.map(\.bodyText)).count == 1 })
        #expect(Set(bench.upstream.requests.map { $0["Authorization"] }).count == 2)
        #expect(try await bench.count("lanyard_replays_total", "result=\"replayed\"") == clients)
        #expect(try await bench.lanyard.process.terminate() == .code(143))
    }

    @Test("tokens that the service has ended by itself cost no request")
    func ended() async throws {
        let emulator = try await EmulatorProcess.start(tokens: "30m")
        let lanyard = try await LanyardProcess.start(emulator)
        try await lanyard.untilReady()
        #expect(try await lanyard.get("/protected/a").status == 200)
        try await emulator.control("POST", "/tokens/expire", #"{"user":"\#(EmulatorProcess.email)"}"#)
        #expect(try await lanyard.get("/protected/b").status == 200)
        #expect(try await emulator.calls("refresh") == 1)
        // Within the cooldown the response passes as it is.
        try await emulator.control("POST", "/tokens/expire", #"{"user":"\#(EmulatorProcess.email)"}"#)
        let response = try await lanyard.get("/protected/c")
        #expect(response.status == 401)
        #expect(response["Proxy-Status"] == "lanyard; received-status=401; details=\"replay-not-possible: cooldown\"")
        #expect(try await emulator.calls("refresh") == 1)
        // Each denial is counted, and one line in ten seconds says so.
        for _ in 0..<4 { #expect(try await lanyard.get("/protected/d").status == 401) }
        try await eventually("five denials are counted") {
            let page = try await RawClient.ask(lanyard.health, "GET", "/metrics").bodyText
            return page.contains(#"lanyard_refresh_denied_total{user="alice",reason="cooldown"} 5"#)
        }
        let lines = lanyard.process.lines.filter { $0.text.contains("session.refresh.denied") }
        #expect(lines.count == 1 && lines.allSatisfy { $0.text.contains("cooldown") }, "\(lines.map(\.text))")
        #expect(try await lanyard.process.terminate() == .code(143))
    }
}
