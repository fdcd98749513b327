import Dispatch
import TestSupport
import Testing

@testable import SystemTestSupport

/// http-forwarding.md 17: responses that mean "token refused", through the binary. `ProxyReplayTests` and its neighbours have every case.
@Suite(.serialized) struct ReplayRuleTests {
    private static let shared = Task {
        try await ReplayBench.start(
            routes: """
                {name: small, match: {path: /small}, upstream: "UP", replay_body_max: 8B},
                {name: none, match: {path: /none}, upstream: "UP", replay_body_max: 0B},
                {name: stubborn, match: {path: /stubborn}, upstream: "UP"},
                """)
    }
    private let bench: ReplayBench

    init() async throws { bench = try await Self.shared.value }

    private static func message(
        _ target: String, _ framing: String, _ body: String, _ fields: String = "", method: String = "POST"
    ) -> String {
        "\(method) \(target) HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\(fields)\(framing)\r\n\r\n\(body)"
    }

    private static func post(_ target: String, _ body: String, _ fields: String = "") -> String {
        message(target, "Content-Length: \(body.utf8.count)", body, fields)
    }

    private static func response(_ body: String) -> String {
        "HTTP/1.1 200 OK\r\nContent-Length: \(body.utf8.count)\r\nDate: d\r\nConnection: close\r\n\r\n\(body)"
    }

    private static func why(_ words: String, _ status: Int = 401) -> String {
        "Proxy-Status: lanyard; received-status=\(status); details=\"replay-not-possible: \(words)\"\r\n"
    }

    private static let refusal: @Sendable () -> RawResponse = {
        .response(401, "Unauthorized", fields: [("WWW-Authenticate", "Bearer error=\"invalid_token\"")], body: "no")
    }

    /// What a client gets of `refusal` when it is relayed.
    private static func relayed(_ words: String?) -> String {
        "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Bearer error=\"invalid_token\"\r\nContent-Length: 2\r\nDate: d\r\n"
            + (words.map { why($0) } ?? "") + "Connection: close\r\n\r\nno"
    }

    @Test("17.1 Twenty requests that are refused at once cause one refresh; each is sent twice and sees one 200")
    func crowd() async throws {
        let size = 20
        let (arrived, allHaveArrived) = (Tally(), Milestone())
        // No response leaves before every request has come with the old token.
        bench.refuses {
            arrived.add()
            if arrived.value == size { allHaveArrived.set() }
            allHaveArrived.wait(for: "all requests have come")
            return allHaveArrived.isSet ? Self.refusal() : .response(500, "Too few")
        }
        let bench = bench
        let refreshes = try await bench.refreshes()
        let replays = try await bench.count("lanyard_replays_total", "result=\"replayed\"")
        try await withThrowingTaskGroup(of: String.self) { group in
            for number in 0..<size {
                group.addTask { try await bench.ask(Self.post("/crowd/\(number)", "body")) }
            }
            for try await response in group { #expect(response == Self.response("POST 4")) }
        }
        #expect(try await bench.refreshes() == refreshes + 1)
        #expect(try await bench.count("lanyard_replays_total", "result=\"replayed\"") == replays + size)
        for number in 0..<size { #expect(bench.received("/crowd/\(number)").count == 2) }
    }

    @Test("17.2 A body is replayed if all of it is held: up to replay_body_max, by length or in chunks")
    func held() async throws {
        bench.refuses(first: Self.refusal)
        for (target, size, sendings) in [
            ("/held/0", 0, 2), ("/held/1", 65_536, 2), ("/held/2", 65_537, 1), ("/small/1", 8, 2), ("/small/2", 9, 1),
            ("/none/1", 0, 2), ("/none/2", 1, 1),
        ] {
            let body = String(repeating: "b", count: size)
            let chunks = size == 0 ? "0\r\n\r\n" : "\(String(size, radix: 16))\r\n\(body)\r\n0\r\n\r\n"
            for (name, text) in [
                ("l", Self.post(target + "l", body)),
                ("c", Self.message(target + "c", "Transfer-Encoding: chunked", chunks)),
            ] where !(target == "/none/1" && name == "c") {
                let response = try await bench.ask(text)
                #expect(
                    response == (sendings == 2 ? Self.response("POST \(size)") : Self.relayed("body too large")),
                    "\(target)\(name)")
                let sent = bench.received(target + name)
                #expect(sent.count == sendings && sent.allSatisfy { $0.bodyText == body }, "\(target)\(name)")
            }
        }
    }

    @Test("17.3 A 401 in place of 100 is replayed with a body of any size, sent by the client once")
    func continued() async throws {
        let client = try await bench.connect()
        async let responded = bench.acceptAndRespond([
            "HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 100 Continue\r\n\r\n",
        ])
        try await client.send(Self.message("/hand", "Content-Length: 1000000", "", "Expect: 100-continue\r\n"))
        let ends = try await responded
        let (first, head) = ends[0]
        let (second, again) = ends[1]
        func normalized(_ text: String) -> String { text.replacing(/Bearer [^\r]*/, with: "Bearer TOKEN") }
        #expect(normalized(head) == normalized(again) && head != again && head.contains("Expect: 100-continue\r\n"))
        #expect(try await first.rest().text == "")
        #expect(try await client.response().status == 100)
        let body = String(repeating: "b", count: 1_000_000)
        async let sending: Void = client.send(body)
        #expect(try await second.read(body.utf8.count) == body)
        try await sending
        try await second.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        #expect(try await client.response(to: "POST").status == 200)
    }

    @Test(
        "17.4 The replay differs in the token only; its connection is used again once the rejected body is read",
        arguments: ["PUT", "POST"])
    func sameAgain(_ method: String) async throws {
        bench.refuses(first: Self.refusal)
        let connections = bench.upstream.connectionCount
        let (fields, target) = (
            "X-a: 1\r\nCookie: c\r\nx-A: 2\r\nVia: 1.0 v\r\nAuthorization: mine\r\n", "/\(method)?a=%2f&b"
        )
        let response = try await bench.ask(
            Self.message(
                target, "Transfer-Encoding: chunked", "2\r\nab\r\n1;x\r\nc\r\n0\r\n\r\n", fields, method: method))
        #expect(response == Self.response("\(method) 3"))
        let sent = bench.received(target)
        try #require(sent.count == 2)
        #expect(sent[0].bodyText == "abc" && sent[1].bodyText == "abc")
        let heads = sent.map { bench.normalized($0.headText) }
        #expect(heads[0] == heads[1] && sent[0]["Authorization"] != sent[1]["Authorization"])
        #expect(sent.allSatisfy { $0.values("Authorization").count == 1 })
        // One for the request where none was kept; a POST, which cannot be repeated, takes a fresh one for the replay.
        #expect(bench.upstream.connectionCount <= connections + (method == "POST" ? 2 : 1))
    }

    @Test("17.4 A second 401 is relayed as it is and stops refreshing for the route, not for others")
    func breaker() async throws {
        bench.responses(Self.refusal)
        let before = try await bench.refreshes()
        #expect(try await bench.ask(Self.post("/stubborn/1", "body")) == Self.relayed(nil))
        #expect(bench.received("/stubborn/1").count == 2)
        #expect(try await bench.ask(Self.post("/stubborn/2", "body")) == Self.relayed("breaker open"))
        #expect(bench.received("/stubborn/2").count == 1)
        #expect(try await bench.refreshes() == before + 1)
        #expect(try await bench.count("lanyard_route_breaker_open", "route=\"stubborn\"") == 1)
        #expect(try await bench.count("lanyard_route_breaker_open", "route=\"all\"") == 0)
        bench.refuses(first: Self.refusal)
        #expect(try await bench.ask(Self.post("/other", "body")) == Self.response("POST 4"))
        #expect(try await bench.refreshes() == before + 2)
    }

    @Test("17.5 Without a replay the 401 passes untouched and says why, the refresh runs, and both are counted")
    func relayed() async throws {
        bench.refuses {
            .text(
                """
                HTTP/1.1 401 \r\nproxy-status: up; error=x\r\nSet-Cookie: a\r\nset-cookie: b\r\n\
                Transfer-Encoding: chunked\r\n\r\n2\r\nno\r\n0\r\n\r\n
                """
            )
        }
        let unauthorized = try await bench.count("lanyard_upstream_unauthorized_total", "route=\"small\"")
        let tooLarge = try await bench.count("lanyard_replays_total", "result=\"body_too_large\"")
        let replayed = try await bench.count("lanyard_replays_total", "result=\"replayed\"")
        let before = try await bench.refreshes()
        let text = try await bench.ask(Self.post("/small/5", "more than eight"))
        #expect(
            text
                == "HTTP/1.1 401 \r\nproxy-status: up; error=x\r\nSet-Cookie: a\r\nset-cookie: b\r\nTransfer-Encoding: chunked\r\n"
                + "Date: d\r\n" + Self.why("body too large") + "Connection: close\r\n\r\n2\r\nno\r\n0\r\n\r\n")
        try await eventually("the refresh still runs") { try await bench.refreshes() == before + 1 }
        #expect(try await bench.ask(Self.post("/small/6", "eight..8")) != "")
        #expect(try await bench.count("lanyard_upstream_unauthorized_total", "route=\"small\"") == unauthorized + 2)
        #expect(try await bench.count("lanyard_replays_total", "result=\"body_too_large\"") == tooLarge + 1)
        #expect(try await bench.count("lanyard_replays_total", "result=\"replayed\"") == replayed + 1)
    }
}
