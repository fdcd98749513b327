import Glibc
import TestSupport
import Testing

@testable import SystemTestSupport

/// The token file of a `static` identity as other programs fill and rewrite it.
@Suite struct StaticTokenFileTests {
    private let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    private func lanyard(_ upstream: RawServer, under clock: TestClock? = nil) async throws -> LanyardProcess {
        try await LanyardProcess.start(
            """
            identities: {fixed: {static: {token_file: \(folder.file("token"))}}}
            users: {alice: {identity: fixed}}
            routes:
              - {name: key, match: {path: /key}, inject: {header: X-Api-Key, format: "{token}"}, upstream: "http://\(upstream.endpoint)"}
              - {name: all, upstream: "http://\(upstream.endpoint)"}
            """, under: clock)
    }

    @Test(
        "a key with |, a comma and a colon is sent as it is, as a bearer token and in X-Api-Key; check says nothing of it"
    )
    func visible() async throws {
        try folder.write("token", "17|abc,DEF:ghi==\n")
        let upstream = try RawServer()
        let lanyard = try await lanyard(upstream)
        try await lanyard.untilReady()
        #expect(try await lanyard.get("/key").status == 200)
        #expect(try await lanyard.get("/other").status == 200)
        #expect(upstream.requests.map { $0.values("X-Api-Key") } == [["17|abc,DEF:ghi=="], []])
        #expect(upstream.requests.last?.values("Authorization") == ["Bearer 17|abc,DEF:ghi=="])
        try await lanyard.process.terminate()
    }

    @Test(
        "a file that is empty for a while costs no request; after 10 s its user is refused, until there is a token again"
    )
    func transition() async throws {
        let clock = try TestClock()
        try folder.write("token", "first-token")
        let upstream = try RawServer { .response(body: $0.message["Authorization"] ?? "none") }
        let lanyard = try await lanyard(upstream, under: clock)
        try await lanyard.untilReady(passing: clock)
        clock.stop()
        try folder.write("token", "")
        try await clock.pass(until: "the empty file is noticed") {
            lanyard.process.lines.contains { $0.event == "session.token.kept" }
        }
        #expect(try await lanyard.get("/").bodyText == "Bearer first-token")
        let ready = try await RawClient.ask(lanyard.health, "GET", "/readyz")
        #expect(ready.status == 200 && ready.bodyText.contains("refresh_failing"), "\(ready.bodyText)")
        let kept = try await lanyard.process.event("session.token.kept")
        #expect(kept["error"].string?.contains("token is empty; write the secret into it") == true, "\(kept)")
        #expect(kept["next_at"].string != nil && kept["action"].string == "nobody", "\(kept)")
        try await clock.pass(until: "the time has passed") {
            lanyard.process.lines.contains { $0.event == "session.credential.refused" }
        }
        #expect(try await lanyard.get("/").status == 503)
        try folder.write("token", "second-token")
        try await clock.pass(until: "the new token serves") { try await lanyard.get("/").status == 200 }
        #expect(try await lanyard.get("/").bodyText == "Bearer second-token")
        clock.run()
        try await lanyard.process.terminate()
    }

    @Test(
        "check names each file that run would refuse, with its reason",
        arguments: [
            ("two words", "has a blank at byte 3: it does not hold a token"), ("caf\u{e9}", "is not ASCII"),
            (String(repeating: "a", count: 33 << 10), "is larger than 32 KiB"), (nil, "is not a regular file"),
        ] as [(String?, String)])
    func check(_ content: String?, _ words: String) async throws {
        let token = folder.file("token")
        if let content { try folder.write("token", content) } else { try #require(mkfifo(token, 0o600) == 0) }
        let path = try folder.write(
            "lanyard.yaml",
            """
            identities: {fixed: {static: {token_file: token}}}
            users: {alice: {identity: fixed}}
            routes: [{upstream: "http://127.0.0.1:9"}]

            """)
        let check = try await CommandRun(["check", "--config", path])
        let lines = check.errors.filter { $0.contains(token) }
        #expect(lines.count == 1 && lines[0].hasPrefix("warning: \(path):1:43: identities.fixed.static.token_file: "))
        #expect(
            lines.first?.contains(words) == true && lines.first?.contains("its user is refused until") == true,
            "\(lines)")
        #expect(try await CommandRun(["check", "--strict", "--config", path]).exit == .code(78))
    }

    @Test("check judges the file of a login by the rules of run: a JWT that is none, a payload that is no object")
    func logins() async throws {
        try folder.write("jwt", "a.b")
        try folder.write("payload", "[1]")
        let path = try folder.write(
            "lanyard.yaml",
            """
            identities: {demo: {app_services: {app_id: demo-abcde, base_url: "http://127.0.0.1:9"}}}
            users:
              one: {identity: demo, login: {jwt: {token_file: jwt}}}
              two: {identity: demo, login: {function: {payload_file: payload}}}
            routes: [{upstream: "http://127.0.0.1:9"}]

            """)
        let check = try await CommandRun(["check", "--config", path])
        #expect(check.exit == .code(0))
        let text = check.errors.joined(separator: "\n")
        #expect(
            text.contains("users.one.login.jwt.token_file: \(folder.file("jwt")) holds no JWT: it has 2 segments"),
            "\(text)")
        #expect(
            text.contains(
                "users.two.login.function.payload_file: \(folder.file("payload")) holds JSON that is no object"))
    }
}
