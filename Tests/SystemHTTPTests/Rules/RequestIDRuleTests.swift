import TestSupport
import Testing

@testable import SystemTestSupport

/// http-forwarding.md 10.5, `request_id_header`.
@Suite(.serialized) struct RequestIDRuleTests {
    private func request(_ target: String, _ fields: [String]) -> String {
        "GET \(target) HTTP/1.1\r\nHost: localhost\r\n" + fields.map { $0 + "\r\n" }.joined() + "\r\n"
    }

    @Test(
        "10.5 A client's own request id goes upstream if it is safe, else ours; a route without the option passes any")
    func requestIDs() async throws {
        let bench = try await HTTPBench.start {
            $0.routes = #"{name: set, match: {path: /set}, upstream: "UP", request_id_header: X-Request-Id},"#
        }
        func sent(_ fields: [String], _ target: String = "/set") async throws -> [String] {
            try await bench.startOver()
            #expect(try await bench.ask(request(target, fields)).status == 200)
            return bench.received.joined().split(separator: "\r\n").map(String.init).filter {
                $0.lowercased().hasPrefix("x-request-id:")
            }
        }
        let longest = String(repeating: "aZ09._-x", count: 8)
        for id in ["mine", "a", longest, "..", "-_.", "0"] {
            #expect(try await sent(["x-request-id: \(id)"]) == ["X-Request-Id: \(id)"])
        }
        for fields in [
            [], ["X-Request-Id:"], ["X-Request-Id: \(longest)a"], ["X-Request-Id: a b"], ["X-Request-Id: a\u{e9}"],
            ["X-Request-Id: a,b"], ["X-Request-Id: \"a\""], ["X-Request-Id: a", "X-Request-Id: a"],
            ["X-Request-Id: a", "x-request-id: \u{e9}"], ["Connection: x-request-id", "X-Request-Id: a"],
            ["X_Request_Id: a"],
        ] {
            let ids = try await sent(fields)
            #expect(ids.count == 1)
            #expect(ids.first?.wholeMatch(of: /X-Request-Id: [0-9a-f]{16}/) != nil, "\(fields): \(ids)")
        }
        #expect(try await sent(["x-request-ID: mine"], "/") == ["x-request-ID: mine"])
        #expect(try await sent([], "/") == [])
        // A problem's `instance` is ours in any case; the log has both.
        try await bench.startOver()
        bench.script { _ in .close }
        let response = try await bench.ask(request("/set", ["X-Request-Id: mine-7"]))
        #expect(response.status == 502)
        let instance = try #require(try response.json["instance"].string)
        #expect(!instance.contains("mine-7"))
        try await eventually("the log has both") {
            bench.lines.contains {
                $0.event == "request.refused" && $0.json["client_request_id"].string == "mine-7"
                    && instance.contains($0.json["request_id"].string ?? "?")
            }
        }
    }
}
