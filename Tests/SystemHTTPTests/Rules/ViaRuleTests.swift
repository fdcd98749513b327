import TestSupport
import Testing

@testable import SystemTestSupport

/// http-forwarding.md 18: Via, Forwarded, loops.
@Suite(.serialized) struct ViaRuleTests {
    private static let shared = Task {
        try await HTTPBench.start { plan in
            plan.routes = ["pass", "append", "reject"]
                .map { "{name: \($0), match: {path: /\($0)}, upstream: \"UP\", forwarded: \($0)}," }.joined()
        }
    }
    private let bench: HTTPBench

    init() async throws {
        bench = try await Self.shared.value
        try await bench.startOver()
    }

    private func get(_ path: String, _ fields: [String], version: String = "1.1") -> String {
        "GET \(path) HTTP/\(version)\r\nHost: localhost\r\n" + fields.map { $0 + "\r\n" }.joined() + "\r\n"
    }

    /// The pseudonym that this process has chosen.
    private func pseudonym() async throws -> String {
        _ = try await bench.ask(HTTPBench.plain("/"))
        let via = bench.requests.last?["Via"] ?? ""
        #expect(via.wholeMatch(of: #/1\.1 lanyard-[0-9a-f]{8}/#) != nil, "\(via)")
        try await bench.startOver()
        return String(via.dropFirst(4))
    }

    @Test("18.1 Via gets our member, with the client's version, behind the members that came")
    func via() async throws {
        for (fields, expected) in [
            ([], ["Via: 1.1 lanyard-x"]),
            (["Via: 1.1 a"], ["Via: 1.1 a", "Via: 1.1 lanyard-x"]),
            (["via: 1.0 a, HTTP/2 b (c)"], ["Via: 1.0 a, HTTP/2 b (c)", "Via: 1.1 lanyard-x"]),
            (["Via: 1.1 a", "A: 1", "VIA: 1.1 b"], ["Via: 1.1 a", "A: 1", "Via: 1.1 b", "Via: 1.1 lanyard-x"]),
            // It is not stripped by naming it.
            (["Via: 1.1 a", "Connection: via"], ["Via: 1.1 a", "Via: 1.1 lanyard-x"]),
            (["Connection: Via"], ["Via: 1.1 lanyard-x"]),
        ] {
            try await bench.startOver()
            #expect(try await bench.ask(get("/", fields)).status == 200)
            #expect(bench.received == [HTTPBench.forwarded("GET /", expected, via: nil)])
        }
        for (version, via) in [("1.0", "1.0"), ("1.7", "1.1")] {
            try await bench.startOver()
            #expect(try await bench.ask(get("/", [], version: version)).status == 200)
            #expect(bench.received == [HTTPBench.forwarded("GET /", via: via)])
        }
    }

    @Test("18.1 Our own pseudonym in a received Via is a loop: 502; many others are no reason to refuse")
    func loop() async throws {
        let own = try await pseudonym()
        let loop = Refusal(status: 502, type: "loop", error: "proxy_loop_detected", closes: false)
        for line in [
            "Via: 1.1 \(own)", "Via: 1.1 a, 1.1 \(own)", "Via: 1.1 \(own), 1.1 b", "via: HTTP/1.0 \(own) (x)",
            "Via: 1.1 \(own.uppercased())", "Via: 1.1 a\r\nA: 1\r\nVia: 1.1 \(own)", "Via: 1.1  \(own)",
            "Via: 1.1\t\(own)",
            "Via: ,,1.1 \(own),",
        ] {
            try await bench.refuses(get("/", [line]), loop)
        }
        let many = "Via: " + (0..<100).map { "1.1 proxy-\($0)" }.joined(separator: ", ")
        for line in [
            many, "Via: 1.1 lanyard-00000000", "Via: 1.1 x\(own)", "Via: 1.1 \(own)x", "Via: 1.1 lanyard",
            "X-Via: 1.1 \(own)",
        ] {
            #expect(try await bench.ask(get("/", [line])).status == 200, Comment(rawValue: line))
        }
    }

    private static let fields = [
        "Forwarded: for=1.2.3.4;by=\"x\"", "X-Forwarded-For: 1.2.3.4, 5.6.7.8", "x-forwarded-proto: https",
        "X-Forwarded-Host: evil", "X-FORWARDED-ANYTHING: 1", "X-Real-IP: 1.2.3.4",
    ]

    @Test("18.2 A client's Forwarded, X-Forwarded-* and X-Real-IP are dropped and counted, and none is added")
    func dropped() async throws {
        let before = try await bench.values(of: "lanyard_dropped_fields_total", by: "kind")["forwarded"] ?? 0
        #expect(try await bench.ask(get("/", ["A: 1"] + Self.fields + ["B: 2"])).status == 200)
        #expect(bench.received == [HTTPBench.forwarded("GET /", ["A: 1", "B: 2"])])
        let after = try await bench.values(of: "lanyard_dropped_fields_total", by: "kind")["forwarded"] ?? 0
        #expect(after - before == 6)
        try await bench.startOver()
        // Their look-alikes, too; and what only begins like them passes.
        let others = ["X-Forwarded: 1", "Forwarded-For: 1", "X-Real-IP2: 1"]
        #expect(
            try await bench.ask(get("/", ["X_Forwarded_For: 1", "X_Real-IP: 1", "X.Forwarded.Host: e"] + others))
                .status == 200)
        #expect(bench.received == [HTTPBench.forwarded("GET /", others)])
    }

    @Test("18.2 forwarded: pass leaves them as they are")
    func passed() async throws {
        for fields in [Self.fields, []] {
            try await bench.startOver()
            #expect(try await bench.ask(get("/pass", fields)).status == 200)
            #expect(bench.received == [HTTPBench.forwarded("GET /pass", fields)])
        }
    }

    @Test("18.2 forwarded: append has the real peer as last member")
    func appended() async throws {
        let own = [
            "Via: 1.1 lanyard-x", "Forwarded: for=127.0.0.1", "X-Forwarded-For: 127.0.0.1", "X-Real-IP: 127.0.0.1",
        ]
        for _ in 0..<2 {
            try await bench.startOver()
            #expect(try await bench.ask(get("/append", Self.fields)).status == 200)
            #expect(
                bench.received == [
                    HTTPBench.forwarded("GET /append", Self.fields.dropLast() + own, via: nil)
                ])
        }
        try await bench.startOver()
        #expect(try await bench.ask(get("/append", ["X_Real_IP: 1.2.3.4", "x-real.ip: 1"])).status == 200)
        #expect(bench.received == [HTTPBench.forwarded("GET /append", own, via: nil)])
        try await bench.startOver()
        #expect(try await bench.ask(get("/append", ["Connection: forwarded, x-forwarded-for"])).status == 200)
        #expect(bench.received == [HTTPBench.forwarded("GET /append", own, via: nil)])
    }

    @Test("18.2 forwarded: reject refuses them")
    func rejected() async throws {
        for field in Self.fields { try await bench.refuses(get("/reject", [field]), .forwarded) }
        try await bench.startOver()
        // What an upstream could take for one of them does not reach it either (http-forwarding.md 10.4).
        let lookAlikes = ["X_Forwarded_For: 1.2.3.4", "x.real-ip: 1"]
        #expect(try await bench.ask(get("/reject", ["A: 1"] + lookAlikes)).status == 200)
        #expect(bench.received == [HTTPBench.forwarded("GET /reject", ["A: 1"])])
    }
}
