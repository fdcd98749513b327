import TestSupport
import Testing

/// The witnesses of the other tests are trusted because of these.
@Suite struct FaultGateTests {
    let server: RawServer
    let gate: FaultGate

    init() throws {
        server = try RawServer { _ in .response(body: "0123456789") }
        gate = try FaultGate(before: server.endpoint)
    }

    private func ask(_ limit: Duration = .seconds(5)) async throws -> RawMessage {
        try await RawClient.ask(gate.endpoint, "GET", "/")
    }

    @Test("an open gate passes requests and responses, and counts connections")
    func pass() async throws {
        #expect(try await ask().bodyText == "0123456789")
        #expect(gate.connectionCount == 1)
        #expect(server.requests.map(\.startLine) == ["GET / HTTP/1.1"])
    }

    @Test("a refusing gate refuses connections until it is opened again")
    func refuse() async throws {
        for _ in 0..<3 {
            try gate.set(.refuse)
            await #expect(throws: TestFailure("connecting to \(gate.endpoint): errno 111")) { try await ask() }
            try gate.set(.pass)
            #expect(try await ask().status == 200)
        }
    }

    @Test("a dropped request never reaches the server", arguments: [FaultGate.Ending.close, .reset])
    func drop(_ ending: FaultGate.Ending) async throws {
        try gate.set(.dropRequest(ending))
        await #expect(throws: TestFailure.self) { try await ask() }
        #expect(server.requests.isEmpty)
    }

    @Test("a torn response ends at the byte that was asked for")
    func tear() async throws {
        try gate.set(.tear(afterBytes: 20, .close))
        let client = try RawClient(gate.endpoint)
        try client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        let bytes = try client.readToEnd()
        #expect(bytes.count == 20)
        #expect(server.requests.count == 1)
    }

    @Test("a reset is a reset: the client's read fails with ECONNRESET")
    func reset() async throws {
        try gate.set(.tear(afterBytes: 0, .reset))
        await #expect(throws: TestFailure("receiving: errno 104")) { try await ask() }
    }

    @Test("a delayed response comes late and whole, a dripping one too")
    func delay() async throws {
        for mode in [FaultGate.Mode.delayResponse(.milliseconds(200)), .drip(.milliseconds(4))] {
            try gate.set(mode)
            let start = ContinuousClock.now
            #expect(try await ask().bodyText == "0123456789")
            #expect(ContinuousClock.now - start > .milliseconds(190))
        }
    }

    @Test("garbage is what the client gets in place of a response")
    func garbage() async throws {
        try gate.set(.garbage(Array("HTTP/1.1 999 \0\r\n\r\n".utf8)))
        #expect(try await ask().status == 999)
        #expect(server.requests.isEmpty)
    }

    @Test("a switch meets connections that are already open, and live ones can be cut")
    func openConnections() async throws {
        do {
            let client = try RawClient(gate.endpoint)
            _ = try client.exchange("GET", "/")
            #expect(gate.openCount == 1)
            try gate.set(.tear(afterBytes: 5, .close))
            try client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            #expect(try client.readToEnd().count == 5)
            try gate.set(.pass)
            let other = try RawClient(gate.endpoint)
            _ = try other.exchange("GET", "/")
            gate.cut(.reset)
            #expect(throws: TestFailure.self) { try other.exchange("GET", "/") }
        }
        try await eventually("no connection is left") { gate.openCount == 0 }
    }
}
