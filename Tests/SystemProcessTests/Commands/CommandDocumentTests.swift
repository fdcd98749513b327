import Foundation
import TestSupport
import Testing

@testable import SystemTestSupport

/// `--json` of the commands that call no admin API: one object, with the members that docs/use/commands.md has.
@Suite struct CommandDocumentTests {
    /// The members that the page lists in the row that begins so.
    private func members(_ row: String) throws -> Set<String> {
        let page = try String(contentsOfFile: "\(Products.root)/docs/use/commands.md", encoding: .utf8)
        let section = try #require(page.components(separatedBy: "### JSON of commands").last)
        let line = try #require(section.split(separator: "\n").first { $0.hasPrefix("| \(row) |") })
        let cell = String(line.split(separator: "|")[1])
        // What stands in parentheses explains a member.
        let outside = cell.split(separator: "(").enumerated().map { index, part in
            index == 0 ? String(part) : String(part.split(separator: ")", maxSplits: 1).last ?? "")
        }
        let spans = outside.joined().split(separator: "`", omittingEmptySubsequences: false)
        return Set(spans.enumerated().compactMap { $0.offset % 2 == 1 ? String($0.element) : nil })
    }

    /// The object has the members of that row, and no others.
    private func expect(_ object: JSON, _ row: String) throws {
        let wanted = try members(row)
        #expect(Set(object.object.keys) == wanted, "\(row)")
    }

    private static let valid = """
        identities: {demo: {static: {token_file: token}}}
        users: {alice: {identity: demo}}
        routes: [{upstream: "http://127.0.0.1:9000", match: {path: /orders}}]

        """

    private func run(_ arguments: [String]) async throws -> (exit: ServerProcess.Exit, json: JSON) {
        let run = try await CommandRun(arguments)
        #expect(run.errors.isEmpty, "\(run.errors)")
        #expect(run.output.hasSuffix("}\n") && run.output.count { $0 == "\n" } == 1, "\(run.output)")
        return (run.exit, try run.json)
    }

    @Test("version")
    func version() async throws {
        let run = try await run(["version", "--json"])
        #expect(run.exit == .code(0))
        try expect(run.json, "`version`")
        #expect(run.json["version"].string?.isEmpty == false)
    }

    @Test("check: valid or not, each finding with file, line and column, what was reached")
    func check() async throws {
        let folder = try TemporaryFolder()
        try folder.write("token", "t")
        let path = try folder.write("lanyard.yaml", Self.valid)
        let valid = try await run(["check", "--json", "--config", path])
        #expect(valid.exit == .code(0))
        try expect(valid.json, "`check`")
        #expect(valid.json["valid"].bool == true && valid.json["findings"].array.isEmpty)
        try folder.write("lanyard.yaml", Self.valid + "limts: {}\nstore: {path: s, key_file: token}\n")
        let wrong = try await run(["check", "--json", "--config", path])
        #expect(wrong.exit == .code(78) && wrong.json["valid"].bool == false)
        let finding = wrong.json["findings"][0]
        try expect(finding, "an element of `findings`")
        #expect(finding["severity"].string == "error" && finding["file"].string == path)
        #expect(finding["line"].int == 4 && finding["column"].int == 1 && finding["place"].string == "\(path):4:1")
        #expect(finding["text"].string == "unknown key \"limts\"; did you mean \"limits\"?")
        try folder.write("lanyard.yaml", Self.valid + "store: {path: s, key_file: token}\n")
        let store = try await run(["check", "--json", "--config", path]).json["findings"][0]
        #expect(store["line"].int == 4 && store["column"].int == 28, "\(store)")
        #expect(store["text"].string?.hasPrefix("store.key_file: the store's key cannot be used: ") == true)
        let upstream = try RawServer()
        let online = try await run([
            "check", "--json", "--online", "--upstream", "http://\(upstream.endpoint)", "--token-file",
            folder.file("token"),
        ])
        #expect(online.exit == .code(0))
        try expect(online.json["online"][0], "an element of `online`")
        #expect(online.json["online"][0]["result"].string == "ok")
    }

    @Test("health and wait: the page's checks with what to do, or why there is no response")
    func health() async throws {
        let body = #"{"status":"not_ready","checks":[{"name":"session:alice","ok":false,"reason":"login_required"}]}"#
        let server = try RawServer { _ in .response(503, "Service Unavailable", body: body) }
        let place = ["--health", "\(server.endpoint)", "--json"]
        let health = try await run(["health", "--ready"] + place)
        #expect(health.exit == .code(1))
        try expect(health.json, "`health`")
        #expect(health.json["status"].int == 503 && health.json["error"] == .null)
        let check = health.json["checks"][0]
        try expect(check, "an element of `checks`")
        #expect(check["what_to_do"].string?.contains("lanyard login alice") == true, "\(check)")
        let wait = try await run(["wait", "--timeout", "300ms"] + place)
        #expect(wait.exit == .code(75))
        try expect(wait.json, "`wait`")
        #expect(wait.json["goal"].string == "ready" && wait.json["waited_seconds"].double ?? 0 >= 0.3)
        let folder = try TemporaryFolder()
        let absent = try await run(["health", "--json", "--health", "unix:\(folder.file("none.sock"))"])
        #expect(absent.exit == .code(1))
        try expect(absent.json, "`health`")
        #expect(absent.json["status"] == .null && absent.json["error"].string == "No such file or directory")
    }

    @Test("route: forwarded or refused, in one shape; without a method it is GET")
    func route() async throws {
        let folder = try TemporaryFolder()
        try folder.write("token", "t")
        let path = try folder.write("lanyard.yaml", Self.valid)
        let forwarded = try await run(["route", "/orders/1", "--json", "--config", path])
        #expect(forwarded.exit == .code(0))
        try expect(forwarded.json, "`route`")
        #expect(forwarded.json["outcome"].string == "forwarded" && forwarded.json["user"].string == "alice")
        #expect(forwarded.json["follows_active_user"].bool == true && forwarded.json["status"] == .null)
        let refused = try await run(["route", "/other", "--json", "--config", path])
        #expect(refused.exit == .code(1))
        try expect(refused.json, "`route`")
        #expect(refused.json["status"].int == 404 && refused.json["problem"].string == "no-route")
    }
}
