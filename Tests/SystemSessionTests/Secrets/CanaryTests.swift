import Foundation
import Glibc
import TestSupport
import Testing

@testable import SystemTestSupport

/// No secret is in anything that Lanyard says: log, metrics, health, problems, admin responses, commands, process table, files, core.
///
/// `SecretSearchTests` show that the search finds planted secrets.
@Suite struct CanaryTests {
    @Test("marked secrets show nowhere, whatever happens", arguments: ["json", "text"])
    func nowhere(_ format: String) async throws {
        let bench = try await CanaryBench.start(format: format)
        try await requests(bench)
        try await adminCalls(bench)
        try await commands(bench)
        try await lyingService(bench)
        try await echoingServer(bench)
        try await spreadingServer(bench)
        try await changedFiles(bench)
        try await bench.keepHealth()
        if getuid() == 0 { try bench.keepProcess(bench.process.pid, as: "lanyard") }
        #expect(try await bench.process.terminate() == .code(143), "\(bench.process.log)")
        let store = try Data(contentsOf: URL(filePath: bench.folder.file("state/sessions")))
        bench.keep(String(decoding: store, as: UTF8.self), as: "the store")

        for event in [
            "session.login.succeeded", "session.credential.refused", "session.refresh.succeeded",
            "session.refresh.forced",
            "session.refresh.failed", "session.token.changed", "request.refused", "request.replayed", "access",
            "admin.call", "admin.refused", "store.opened", "shutdown.finished", "upstream.field_file.failed",
        ] {
            #expect(bench.process.log.contains(event), "\(event) did not happen")
        }
        #expect(Set(bench.witness.gifts.map(\.key)) == ["access_token", "refresh_token", "key"])
        let search = SecretSearch(bench.secrets)
        for (place, text) in bench.record {
            let finds = search.finds(in: text, of: place).map(\.description).sorted()
            let lines = finds.isEmpty ? [] : text.split(separator: "\n")
            let telling = lines.filter { !search.finds(in: String($0), of: place).isEmpty }
            #expect(finds == [], "\(telling.joined(separator: "\n").prefix(2000))")
        }
        // The same search of the same text, with a leak.
        for (name, secret) in bench.secrets {
            let planted = bench.process.log + String(secret.unicodeScalars.suffix(SecretSearch.pieceBytes))
            #expect(!search.finds(in: planted, of: "log").isEmpty, "a planted piece of \(name)")
        }
    }

    private func requests(_ bench: CanaryBench) async throws {
        let cookie = [("Cookie", "session=" + bench.mark("a cookie")), ("X-Api-Key", bench.mark("the client's key"))]
        let own = [("Authorization", "Bearer " + bench.mark("the client's token"))]
        let basic = Data("user:\(bench.mark("the client's word"))".utf8).base64EncodedString()
        let query = "?token=" + bench.mark("a query")
        for path in [
            "/ok", "/refuse", "/failure", "/field", "/status", "/length", "/chunk", "/short", "/reset", "/as/robot",
            "/as/fay",
        ] {
            try await bench.ask(path + query, cookie)
        }
        try await bench.ask("/ok" + query, own)
        try await bench.ask("/ok" + query, [("Authorization", "Basic " + basic)])
        let guess = bench.mark("a guessed capability")
        try await bench.ask("/ok", capability: guess)
        try await bench.ask("/ok", capability: String(try bench.content("capability").dropLast()))
        let secret = bench.mark("a malformed request")
        for request in [
            "GET /x?\(secret) HTTP/1.1\r\nHost: localhost\r\n folded \(secret)\r\n\r\n",
            "GET /x?\(secret) HTTP/9.9\r\nHost: localhost\r\n\r\n", "\(secret)\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: \(secret)\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: \(secret)\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n\(secret)\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: localhost\r\nA field: \(secret)\r\n\r\n",
            "GET http://user:\(secret.replacing("/", with: "-"))@localhost/ HTTP/1.1\r\nHost: localhost\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: localhost\r\nAuthorization: \(secret)\r\nAuthorization: \(secret)\r\n\r\n",
        ] {
            try await bench.send(request)
        }
        try await bench.keepHealth()
    }

    private func adminCalls(_ bench: CanaryBench) async throws {
        try await bench.call("GET", "/status", token: bench.mark("a guessed admin token"))
        try await bench.call("GET", "/status?token=" + bench.mark("an admin query"))
        try await bench.call("POST", "/users/alice/refresh", token: String(try bench.content("admin-token").dropLast()))
        for path in [
            "/status", "/users", "/users/alice", "/users/alice/token", "/users/alice/profile", "/openapi.json",
        ] {
            try await bench.call("GET", path)
        }
        let password = bench.mark("bob's password")
        try await bench.emulator.add("bob@example.com", password: password)
        let wrong = bench.mark("a wrong password")
        for (body, status) in [
            (try Self.body(wrong), 422), (try Self.body(password), 201),
            (try Self.body(password) + "}", 400),
            (#"{"name":"x","identity":"demo","credential":"\#(try Self.quoted(wrong))"}"#, 400),
            (
                #"{"name":"x","identity":"demo","credential":{"email_password":{"password":[\#(try Self.quoted(wrong))]}}}"#,
                422
            ),
            (#"{"name":"x","identity":"demo","credential":{"jwt":{"token":\#(try Self.quoted(wrong))}}}"#, 422),
        ] {
            #expect(try await bench.call("POST", "/users", body) == status)
        }
        // The one response that shows a key.
        try await bench.call("POST", "/users/alice/api-keys", #"{"name":"marked"}"#, isKept: false)
        try await bench.call("GET", "/users/alice/api-keys")
        try await bench.call("POST", "/users/alice/refresh")
        try await bench.call("POST", "/users/bob/logout")
    }

    private func commands(_ bench: CanaryBench) async throws {
        for arguments in [
            ["status"], ["status", "--json"], ["users"], ["users", "--json"], ["profile", "alice", "--json"],
            ["refresh", "alice", "--json"], ["token", "alice"], ["token", "alice", "--json"], ["use", "alice"],
            ["api-keys", "list", "alice"], ["login", "fay", "--json"], ["logout", "nobody"],
        ] {
            try await bench.command(arguments)
        }
        let wrong = bench.mark("a wrong password of a command")
        for more in [[], ["--json"]] {
            let login = ["login", "zoe", "--identity", "demo", "--email", "zoe@example.com"] + more
            try await bench.command(login, input: wrong)
        }
        // A secret in place of a name or a path is a mistake that the message must not spread: it names the flag.
        let configuration = bench.folder.file("lanyard.yaml")
        for arguments in [
            ["check", "--config", configuration], ["check", "--print-config", "--config", configuration],
            ["check", "--online", "--config", configuration],
            ["route", "GET", "http://localhost/ok", "--config", configuration], ["--help"], ["login", "--help"],
            // What the manual pages are made of.
            ["--experimental-dump-help"], ["--generate-completion-script", "bash"],
        ] {
            try await bench.plainCommand(arguments)
        }
        try await loginUnderWay(bench)
    }

    /// What other users of the machine see while a login runs.
    private func loginUnderWay(_ bench: CanaryBench) async throws {
        try await bench.emulator.add("dora@example.com", password: bench.mark("dora's password"))
        let password = try #require(bench.secrets.last { $0.name == "dora's password" }?.secret)
        let file = try bench.folder.write("dora", password)
        try await bench.emulator.control("POST", "/delays", #"{"route":"login","milliseconds":5000}"#)
        let login = try ServerProcess(
            "lanyard",
            ["login", "dora", "--identity", "demo", "--email", "dora@example.com", "--password-file", file]
                + bench.adminFlags)
        try await eventually("the login is in progress") {
            try await bench.emulator.control("GET", "/counts")["routes"]["login"]["in_flight"].int == 1
        }
        if getuid() == 0 { try bench.keepProcess(login.pid, as: "lanyard login") }
        try await bench.clock.pass(.seconds(5))
        try await bench.emulator.control("POST", "/delays", #"{"route":"login","milliseconds":0}"#)
        #expect(try await login.waitForExit() == .code(0), "\(login.log)")
        bench.keep(login.output + login.log, as: "lanyard login")
    }

    /// Responses that quote what was sent, and put tokens where none belong.
    private func lyingService(_ bench: CanaryBench) async throws {
        let password = bench.mark("a quoted password")
        let quoted = try Self.quoted(password)
        let piece = try Self.quoted(String(password.prefix(SecretSearch.pieceBytes)))
        let refresh = try #require(bench.witness.refreshTokens.last)
        let access = try #require(bench.witness.gifts.last { $0.key == "access_token" }?.secret)
        let json = [("Content-Type", "application/json")]
        let quoting = [
            RawResponse.response(500, "Error", fields: json, body: #"{"error":\#(quoted),"error_code":\#(quoted)}"#),
            .response(400, "Error", fields: json, body: #"{"error":\#(quoted),"error_code":\#(quoted)}"#),
            .response(400, "Error", fields: json, body: #"{"error":\#(piece),"error_code":\#(piece)}"#),
        ]
        // With a figure, because a code of words alone is shown.
        let figure = refresh.lastIndex(where: \.isNumber).map { refresh[...$0].suffix(SecretSearch.pieceBytes) }
        let end = try Self.quoted(String(try #require(figure)))
        let others = [
            RawResponse.response(400, "Error", fields: json, body: #"{"error":\#(end),"error_code":\#(end)}"#),
            .response(
                400, "Error", fields: json,
                body: #"{"error":"\#(refresh)","error_code":"\#(access)","link":"\#(access)"}"#),
            .response(
                200, "OK", fields: json, body: #"{"access_token":"\#(access) \#(refresh)","user_id":"\#(refresh)"}"#),
            .response(200, "OK", fields: json, body: #"{"access_token":"\#(access)","error":"\#(refresh)""#),
            .response(302, "Found", fields: [("Location", "http://\(refresh).invalid/?t=\(access)")]).closing,
            .text("HTTP/1.1 200 \(access)\r\nContent-Length: \(refresh)\r\n\r\n").closing,
            .text("\(refresh)\r\n\(access)\r\n\r\n").closing,
        ]
        for response in quoting + others {
            bench.witness.plays { $0.method == "GET" ? nil : response }
            try await bench.call("POST", "/users/alice/link", Self.credential(quoted))
            try await bench.call("POST", "/users/alice/login", Self.credential(quoted))
        }
        for response in others {
            bench.witness.plays { $0.method == "GET" ? nil : response }
            try await bench.call("POST", "/users/alice/refresh")
            try await bench.command(["refresh", "alice", "--json"])
        }
        bench.witness.plays { _ in nil }
        try await bench.call("POST", "/users/alice/login")
        try await bench.call("POST", "/users/alice/refresh")
        try await bench.ask("/refuse?again")
        try await bench.keepHealth()
    }

    /// An OAuth server that echoes each field: its words are shown without a secret, and never in the log.
    private func echoingServer(_ bench: CanaryBench) async throws {
        for user in ["olga", "rex", "sue"] {
            let before = bench.echo.calls
            while bench.echo.calls < before + EchoingServer.callsMax {
                try await bench.call("POST", "/users/\(user)/login")
            }
            try await bench.call("GET", "/users/\(user)")
            try await bench.command(["login", user])
        }
        try await bench.command(["status"])
        try await bench.plainCommand(["check", "--online", "--login", "--config", bench.folder.file("lanyard.yaml")])
        #expect(bench.record.contains { $0.place.hasPrefix("admin POST") && $0.text.contains(EchoingServer.mark) })
        #expect(!bench.process.log.contains(EchoingServer.mark))
        #expect(bench.process.log.contains("invalid_grant"))
    }

    /// An OAuth server that writes each secret into each member, at logins, refreshes and fetches for a route.
    private func spreadingServer(_ bench: CanaryBench) async throws {
        let before = bench.spread.calls
        while bench.spread.calls < before + SpreadingServer.callsMax {
            try await bench.call("POST", "/users/pam/login")
            try await bench.call("POST", "/users/pam/refresh")
            if bench.spread.calls % 7 == 0 { try await bench.ask("/as/pam") }
        }
        try await bench.call("GET", "/users/pam")
        try await bench.call("GET", "/status")
        for arguments in [["status"], ["status", "--json"], ["login", "pam"], ["refresh", "pam"]] {
            try await bench.command(arguments)
        }
    }

    /// Secret files that change, and one that becomes unusable.
    private func changedFiles(_ bench: CanaryBench) async throws {
        for name in ["robot", "capability", "password", "google", "field"] {
            try bench.folder.write(name, bench.mark("a new " + name))
        }
        try await bench.clock.pass(until: "the new token is read", grain: .milliseconds(500)) {
            bench.process.lines.filter { $0.text.contains("session.token.changed") }.count >= 2
        }
        try await bench.clock.pass(until: "the new code is tried", grain: .milliseconds(500)) {
            bench.process.lines.filter { $0.text.contains("session.login.started") && $0.text.contains("gus") }.count
                >= 2
        }
        try await bench.ask("/refuse?with-the-new-field")
        try bench.folder.write("robot", "two words " + bench.mark("an unusable token"))
        try bench.folder.write("field", "two\nlines " + bench.mark("an unusable field"))
        try await bench.clock.pass(until: "the field is refused", grain: .milliseconds(500)) {
            bench.process.log.contains("upstream.field_file.failed")
        }
        try await bench.ask("/as/robot")
        try await bench.ask("/ok")
        try await bench.call("GET", "/status")
    }

    // MARK: Bodies

    private static func quoted(_ text: String) throws -> String {
        String(decoding: try JSONEncoder().encode(text), as: UTF8.self)
    }

    private static func credential(_ quoted: String) -> String {
        #"{"credential":{"email_password":{"email":"alice@example.com","password":\#(quoted)}}}"#
    }

    private static func body(_ password: String) throws -> String {
        #"{"name":"bob","identity":"demo","credential":{"email_password":{"email":"bob@example.com","password":\#(try quoted(password))}}}"#
    }
}
