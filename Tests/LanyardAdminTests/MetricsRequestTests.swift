import LanyardAdmin
import LanyardFoundations
import TestSupport
import Testing

/// Clients of `/metrics`: how many pages are made for them, and what they cost the probes.
@Suite struct MetricsRequestTests {
    private static let request = "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"

    /// A server whose time stands, behind a unix socket: what is sent has arrived.
    private static func server(_ limits: OperatorLimits = .health) throws -> (HealthServer, TemporaryFolder) {
        let folder = try TemporaryFolder()
        return (try HealthServer(limits: limits, unixPath: folder.file("health.sock"), timeStands: true), folder)
    }

    private static func value(_ response: RawMessage, openMetrics: Bool = false) throws -> Double? {
        try ExpositionReader(response.body, openMetrics: openMetrics)["lanyard_requests_total", ["route": "a"]]
    }

    @Test("a page that takes a quarter of a second is made once in a second, and all who wait for it get the same")
    func onceInASecond() throws {
        let (server, folder) = try Self.server()
        let clients = try (0..<4).map { _ in try RawClient(server.endpoint) }
        try clients[0].send(Self.request)
        server.pass(.zero)
        #expect(try Self.value(clients[0].response()) == 3)
        for client in clients { try client.send(Self.request) }
        server.pass(.seconds(1) - .nanoseconds(1))
        #expect(server.metrics.pagesMade == 1 && !clients.contains(where: \.hasInput))
        // The page is not older than the requests for it.
        server.metrics.requests.withLock { $0 = 4 }
        server.pass(.nanoseconds(1))
        #expect(server.metrics.pagesMade == 2)
        for client in clients { #expect(try Self.value(client.response()) == 4) }
        // After a pause no reader waits.
        server.pass(.seconds(1))
        try clients[0].send(Self.request)
        server.pass(.zero)
        #expect(server.metrics.pagesMade == 3 && clients[0].hasInput)
        _ = folder
    }

    @Test(
        "pages are made in a quarter of the time at most, and one that takes longer still once in a second",
        arguments: [(Duration.milliseconds(10), Duration.milliseconds(40)), (.seconds(2), .seconds(1))])
    func share(_ cost: Duration, _ interval: Duration) throws {
        let (server, folder) = try Self.server()
        server.metrics.cost.withLock { $0 = cost }
        let client = try RawClient(server.endpoint)
        try client.send(Self.request + Self.request)
        server.pass(interval - .nanoseconds(1))
        #expect(server.metrics.pagesMade == 1)
        server.pass(.nanoseconds(1))
        #expect(server.metrics.pagesMade == 2)
        for _ in 0..<2 { _ = try client.response() }
        _ = folder
    }

    @Test("one page is made for both formats and for HEAD")
    func formats() throws {
        let (server, folder) = try Self.server()
        let clients = try (0..<3).map { _ in try RawClient(server.endpoint) }
        let open = "Host: 127.0.0.1\r\nAccept: application/openmetrics-text\r\n"
        server.metrics.holdNext()
        try clients[0].send(Self.request)
        server.metrics.untilHeld()
        try clients[0].send(Self.request)
        try clients[1].send(Self.request.replacing("Host: 127.0.0.1\r\n", with: open))
        try clients[2].send(Self.request.replacing("GET", with: "HEAD"))
        server.metrics.release()
        server.pass(.zero)
        _ = try clients[0].response()
        server.pass(.seconds(1))
        let page = try clients[0].response()
        #expect(try Self.value(page) == 3)
        #expect(try Self.value(clients[1].response(), openMetrics: true) == 3)
        let head = try clients[2].response(to: "HEAD")
        #expect(head.status == 200 && head["Content-Length"] == "\(page.body.count)")
        #expect(server.metrics.pagesMade == 2)
        _ = folder
    }

    @Test("probes have their responses while a page is made")
    func besideAPage() throws {
        let server = try HealthServer()
        server.metrics.holdNext()
        defer { server.metrics.release() }
        let client = try RawClient(server.endpoint)
        try client.send(Self.request)
        server.metrics.untilHeld()
        for path in ["/livez", "/readyz", "/readyz/alice", "/startupz"] {
            #expect(try RawClient(server.endpoint).exchange("GET", path, host: "127.0.0.1").status == 200)
        }
        #expect(!client.hasInput)
        server.metrics.release()
        #expect(try Self.value(client.response()) == 3)
    }

    @Test("for clients that have gone no page is made")
    func gone() throws {
        let (server, folder) = try Self.server()
        let first = try RawClient(server.endpoint)
        try first.send(Self.request)
        server.pass(.zero)
        _ = try first.response()
        let clients = try (0..<3).map { _ in try RawClient(server.endpoint) }
        for client in clients { try client.send(Self.request) }
        server.pass(.zero)
        for client in clients { client.close() }
        server.pass(.seconds(2))
        #expect(server.metrics.pagesMade == 1)
        // A client that comes later gets its page at once.
        try first.send(Self.request)
        server.pass(.zero)
        #expect(server.metrics.pagesMade == 2)
        #expect(try Self.value(first.response()) == 3)
        _ = folder
    }

    @Test("a client that goes while its page is made costs its neighbours nothing")
    func goneInBetween() throws {
        let (server, folder) = try Self.server()
        let (going, staying) = (try RawClient(server.endpoint), try RawClient(server.endpoint))
        server.metrics.holdNext()
        try going.send(Self.request)
        try staying.send(Self.request)
        server.metrics.untilHeld()
        going.close()
        server.metrics.release()
        server.pass(.seconds(1))
        #expect(try Self.value(staying.response()) == 3)
        _ = folder
    }

    @Test("a client that sends many requests at once gets one page in a second")
    func pipelining() throws {
        let (server, folder) = try Self.server()
        let greedy = try (0..<8).map { _ in try RawClient(server.endpoint) }
        for client in greedy { try client.send(String(repeating: Self.request, count: 20)) }
        server.pass(.seconds(5))
        // At the instants 0, 1, 2, 3, 4 and 5.
        #expect(server.metrics.pagesMade == 6)
        for (number, client) in greedy.enumerated() {
            // Those that came while the first page was made had none at the instant 0.
            for _ in 0..<5 { _ = try client.response() }
            if client.hasInput { _ = try client.response() }
            #expect(!client.hasInput, "client \(number)")
        }
        _ = folder
    }

    @Test("a client that ends its direction still gets its page")
    func halfClose() throws {
        let (server, folder) = try Self.server()
        let client = try RawClient(server.endpoint)
        try client.send(Self.request + Self.request)
        client.halfClose()
        server.pass(.seconds(1))
        let pages = try client.readToEnd()
        #expect(String(decoding: pages, as: UTF8.self).split(separator: "HTTP/1.1 200 OK").count == 2)
        _ = folder
    }

    @Test("clients that wait for a page make room for a probe")
    func makesRoom() throws {
        var limits = OperatorLimits.health
        limits.connectionsMax = 4
        let (server, folder) = try Self.server(limits)
        let first = try RawClient(server.endpoint)
        try first.send(Self.request)
        server.pass(.zero)
        let waiting = try (0..<4).map { _ in
            let client = try RawClient(server.endpoint)
            try client.send(Self.request)
            server.pass(.milliseconds(1))
            return client
        }
        let probe = try RawClient(server.endpoint)
        try probe.send("GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        server.pass(.zero)
        #expect(try probe.response().status == 200)
        server.pass(.seconds(1))
        #expect(try Self.value(waiting[3].response()) == 3)
        _ = folder
    }

    @Test("clients that do not read their responses do not cost a new connection its place")
    func newConnection() throws {
        var limits = OperatorLimits.health
        limits.connectionsMax = 4
        let (server, folder) = try Self.server(limits)
        let greedy = try (0..<4).map { _ in
            let client = try RawClient(server.endpoint)
            try client.socket.sendUntilFull(Array("GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".utf8))
            return client
        }
        server.pass(.seconds(1))
        let probe = try RawClient(server.endpoint)
        let others = try (0..<3).map { _ in try RawClient(server.endpoint) }
        server.pass(.zero)
        let response = try probe.exchange("GET", "/livez", host: "127.0.0.1")
        #expect(response.status == 200)
        for client in greedy + others { client.reset() }
        _ = folder
    }
}
