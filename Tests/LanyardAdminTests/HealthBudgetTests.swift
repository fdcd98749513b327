import LanyardAdmin
import LanyardFoundations
import TestSupport
import Testing

/// Slow, silent and too many clients: none of them keeps a probe from its response.
@Suite struct HealthBudgetTests {
    @Test("a head that drips is ended with 408 when its time is up, a silent connection without a word")
    func slowHead() async throws {
        var limits = OperatorLimits.health
        limits.headTimeout = .seconds(3600)
        // What is sent over a unix socket has arrived.
        let folder = try TemporaryFolder()
        let server = try HealthServer(limits: limits, unixPath: folder.file("health.sock"), timeStands: true)
        let dripping = try RawClient(server.endpoint)
        let silent = try RawClient(server.endpoint)
        server.pass(.zero)
        // Drips do not prolong it.
        for byte in "GET /livez".utf8 {
            try dripping.send([byte])
            try RawClient(server.endpoint).send("G")
            server.pass(.seconds(300))
        }
        server.pass(.seconds(600) - .nanoseconds(1))
        #expect(dripping.socket.receiveNow(max: 1) == nil && silent.socket.receiveNow(max: 1) == nil)
        server.pass(.nanoseconds(1))
        let response = try dripping.response()
        #expect(response.status == 408)
        #expect(try silent.readToEnd() == [])
    }

    @Test("an idle kept connection is closed without a word when its time is up")
    func idle() async throws {
        var limits = OperatorLimits.health
        limits.idleTimeout = .seconds(3600)
        let server = try HealthServer(limits: limits, timeStands: true)
        let client = try RawClient(server.endpoint)
        _ = try client.exchange("GET", "/livez", host: "127.0.0.1")
        server.pass(.seconds(3600) - .nanoseconds(1))
        #expect(client.socket.receiveNow(max: 1) == nil)
        server.pass(.nanoseconds(1))
        let rest = try client.readToEnd()
        #expect(rest == [])
    }

    @Test("hundreds of half-sent heads do not keep a probe from its response")
    func flood() async throws {
        var limits = OperatorLimits.health
        limits.connectionsMax = 8
        let server = try HealthServer(limits: limits)
        try {
            let half = try (0..<200).map { _ in
                let client = try RawClient(server.endpoint)
                try client.send("GET /livez HTTP/1.1\r\nHo")
                return client
            }
            let response = try RawClient(server.endpoint).exchange("GET", "/livez", host: "127.0.0.1")
            #expect(response.status == 200)
            // The first ones made room: closed, or reset if their bytes had not been read yet.
            #expect((try? half[0].readToEnd()) ?? [] == [])
        }()
        let metrics = try ExpositionReader(try await server.ask("GET", "/metrics").body, openMetrics: false)
        #expect(metrics["lanyard_health_connections", [:]]! <= 8)
    }

    @Test("clients that never read their responses do not keep a probe from its response")
    func neverReading() async throws {
        var limits = OperatorLimits.health
        limits.connectionsMax = 4
        let server = try HealthServer(limits: limits)
        try {
            let request = "GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
            let greedy = try (0..<6).map { _ in
                let client = try RawClient(server.endpoint)
                // As much as both sides' buffers take; then this side stops, too.
                try client.socket.sendUntilFull(Array(request.utf8))
                return client
            }
            for _ in 0..<10 {
                let response = try RawClient(server.endpoint).exchange("GET", "/livez", host: "127.0.0.1")
                #expect(response.status == 200)
            }
            greedy.forEach { $0.reset() }
        }()
    }

    @Test("a client that takes no byte of its response is cut off when its time is up")
    func writeTimeout() async throws {
        var limits = OperatorLimits.health
        limits.writeTimeout = .milliseconds(200)
        let server = try HealthServer(limits: limits)
        let client = try RawClient(server.endpoint)
        try client.socket.sendUntilFull(Array("GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".utf8))
        try await eventually("the connection is gone") {
            let page = try await server.ask("GET", "/metrics").body
            return try ExpositionReader(page, openMetrics: false)["lanyard_health_connections", [:]] == 1
        }
        client.close()
    }
}
