import Foundation
import TestSupport
import Testing

@testable import SystemTestSupport

/// How long an upstream takes, and how many requests wait for one of its connections.
@Suite struct UpstreamMetricsTests {
    private static let name = "lanyard_upstream_duration_seconds"

    private static func metrics(_ lanyard: LanyardProcess) async throws -> ExpositionReader {
        try ExpositionReader(try await RawClient.ask(lanyard.health, "GET", "/metrics").body, openMetrics: false)
    }

    @Test("the duration runs from the last byte of the request to the response; an upload is no part of it")
    func duration() async throws {
        let clock = try TestClock()
        let gate = Milestone()
        let upstream = try RawServer { request in
            request.message.target == "/slow" ? .response().after(gate) : .response()
        }
        clock.watch(upstream.threads)
        let lanyard = try await LanyardProcess.start(
            """
            routes:
              - {name: slow, match: {path: /slow}, upstream: "http://\(upstream.endpoint)"}
              - {name: upload, match: {path: /upload}, upstream: "http://\(upstream.endpoint)"}

            """, token: "t", under: clock)
        try await lanyard.untilReady()
        clock.stop()
        let host = "Host: \(lanyard.data)\r\n"

        let slow = try RawClient(lanyard.data)
        try slow.send("GET /slow HTTP/1.1\r\n\(host)\r\n")
        try await clock.pass(.seconds(5))
        gate.set()
        let first = try slow.response().status
        #expect(first == 200)

        let upload = try RawClient(lanyard.data)
        try upload.send("POST /upload HTTP/1.1\r\n\(host)Content-Length: 2\r\n\r\na")
        try await eventually("the upload has begun") {
            upstream.records.contains { String(decoding: $0.bytes, as: UTF8.self).contains("POST /upload") }
        }
        try await clock.pass(.seconds(5))
        try upload.send("b")
        let second = try upload.response().status
        #expect(second == 200)

        let page = try await Self.metrics(lanyard)
        for route in ["slow", "upload"] { #expect(page["\(Self.name)_count", ["route": route]] == 1) }
        #expect(page["\(Self.name)_sum", ["route": "slow"]] == 5)
        #expect(page["\(Self.name)_sum", ["route": "upload"]] == 0)
    }

    @Test("a request that waits for a connection at connections_max counts once, and none before")
    func waits() async throws {
        let gate = Milestone()
        let upstream = try RawServer { _ in
            gate.wait(for: "the responses may come")
            return .response()
        }
        let lanyard = try await LanyardProcess.start(
            before: "http://\(upstream.endpoint)", route: "connections_max: 1")
        let waits = { try await Self.metrics(lanyard)["lanyard_upstream_waits_total", ["route": "all"]] }
        #expect(try await waits() == 0)
        let clients = try (0..<3).map { _ in try RawClient(lanyard.data) }
        let request = "GET / HTTP/1.1\r\nHost: \(lanyard.data)\r\n\r\n"
        try clients[0].send(request)
        try await eventually("the connection is in use") { upstream.openCount == 1 }
        #expect(try await waits() == 0)
        for client in clients.dropFirst() { try client.send(request) }
        try await eventually("two requests wait") { try await waits() == 2 }
        gate.set()
        for client in clients {
            let status = try client.response().status
            #expect(status == 200)
        }
        #expect(try await waits() == 2)
    }

    @Test(
        "lookups of a name are counted by result, an address and localhost need none",
        .enabled("needs root and namespaces of its own") { MountNamespace.isPossible })
    func lookups() async throws {
        let upstream = try RawServer()
        let hosts = try OwnHostsFile(["127.0.0.1 upstream.test"])
        let lanyard = try await LanyardProcess.start(
            """
            routes:
              - {name: address, match: {path: /address}, upstream: "http://\(upstream.endpoint)"}
              - {name: local, match: {path: /local}, upstream: "http://localhost:\(upstream.endpoint.port)"}
              - {name: name, match: {path: /name}, upstream: "http://upstream.test:\(upstream.endpoint.port)",
                 unsafe_plain: true}

            """, token: "t", launcher: hosts.launcher)
        try await lanyard.untilReady()
        func counts() async throws -> [Double?] {
            let page = try await Self.metrics(lanyard)
            return ["success", "failure", "timeout"].map { page["lanyard_dns_lookups_total", ["result": $0]] }
        }
        #expect(try await lanyard.get("/address").status == 200)
        #expect(try await lanyard.get("/local").status == 200)
        #expect(try await counts() == [0, 0, 0])
        #expect(try await lanyard.get("/name").status == 200)
        let after = try await counts()
        #expect(after[0] ?? 0 >= 1 && after[1] == 0 && after[2] == 0, "\(after)")
    }
}
