import TestSupport
import Testing

@testable import SystemTestSupport

/// http-forwarding.md 12.6: the upstream's own addresses become client-side addresses.
@Suite(.serialized) struct AddressRuleTests {
    private static let shared = Task {
        try await HTTPBench.start { plan in
            plan.routes = """
                {name: api, match: {path: /api}, upstream: "UP/v1"},
                {name: root, match: {path: /root}, upstream: "UP/"},
                {name: client, match: {path: /client}, upstream: "UP/c", host: client},
                {name: named, match: {path: /named}, upstream: "UP/n", host: {value: "Named.Test:8080"}},
                {name: pass, match: {path: /pass}, upstream: "UP/p", redirects: pass, cookies: pass},
                {name: more, match: {path: /more}, upstream: "UP/m", redirects: {fields: [X-Next, x-last]}},
                {name: less, match: {path: /less}, upstream: "UP/m", redirects: {mode: pass, fields: [X-Next]}},
                {name: dav, match: {path: /dav}, upstream: "UP/d", deny: [{path: /dav/denied}]},

                """
        }
    }
    private let bench: HTTPBench

    init() async throws {
        bench = try await Self.shared.value
        try await bench.startOver()
    }

    /// Lets the upstream respond with this line, in which `UP` stands for its authority, and returns what the client gets of it.
    ///
    /// - Parameter head: the request; nil: one of the method for the path.
    private func relay(
        _ path: String, _ line: String, _ method: String = "GET", head: String? = nil
    ) async throws -> String {
        let authority = "\(bench.upstream.endpoint)"
        let sent = line.replacing("UP", with: authority)
        bench.script { _ in
            let fields = "X-Before: 1\r\n\(sent)\r\nX-After: 2\r\nContent-Length: 0\r\n"
            return RawResponse([.send(Wire.bytes("HTTP/1.1 302 Found\r\n\(fields)\r\n"))])
        }
        let client = try await bench.connect()
        let length = method == "POST" ? "Content-Length: 3\r\n\r\nabc" : "\r\n"
        try await client.send(head ?? "\(method) \(path) HTTP/1.1\r\nHost: localhost\r\n\(length)")
        let lines = try await client.head().split(separator: "\r\n").map(String.init)
        client.close()
        #expect(lines.contains("X-Before: 1") && lines.contains("X-After: 2"), "\(lines)")
        let name = line.prefix { $0 != ":" }
        return lines.filter { $0.hasPrefix(name) }.joined(separator: "\n").replacing(authority, with: "UP")
    }

    @Test("12.6 Location and Content-Location of the upstream's own origin become a client-side path")
    func references() async throws {
        for (path, sent, expected) in [
            // Without a mapped prefix only the origin goes.
            ("/x", "http://UP/new?a=1#b", "/new?a=1#b"), ("/x", "HTTP://UP", "/"), ("/x", "//UP/new", "/new"),
            ("/x", "http://UP?a=1", "/?a=1"), ("/x", "/new", "/new"), ("/x", "new", "new"), ("/x", "?a", "?a"),
            // With one it is mapped back, in references to the own origin and in paths.
            ("/api/x", "http://UP/v1/new", "/api/new"), ("/api/x", "http://UP/v1", "/api"),
            ("/api/x", "http://UP/v1/", "/api/"), ("/api/x", "/v1/new?to=/v1/old", "/api/new?to=/v1/old"),
            ("/api/x", "/v1?a", "/api?a"), ("/api/x", "new", "new"), ("/root/x", "http://UP/new", "/root/new"),
            ("/root/x", "http://UP", "/root"), ("/root/x", "/", "/root/"),
            // The route does not lead there.
            ("/api/x", "http://UP/v2/new", "http://UP/v2/new"), ("/api/x", "/v12", "/v12"), ("/api/x", "/", "/"),
            ("/api/x", "http://UP", "http://UP"),
            // Other origins.
            ("/x", "https://UP/new", "https://UP/new"), ("/x", "http://other.test/new", "http://other.test/new"),
            ("/x", "http://UP@other.test/", "http://UP@other.test/"), ("/x", "http://me@UP/", "http://me@UP/"),
            ("/x", "http://UP.other.test/", "http://UP.other.test/"), ("/x", "http://UP\\x", "http://UP\\x"),
            ("/x", "", ""), ("/x", "mailto:UP", "mailto:UP"),
            // A path with two slashes in front would name another host.
            ("/x", "http://UP//other.test/", "http://UP//other.test/"),
            ("/x", "http://UP/\\other.test/", "http://UP/\\other.test/"),
            ("/root/x", "http://UP//other.test/", "/root//other.test/"),
            // Browsers remove a tab, and read a backslash as a slash.
            ("/x", "http://UP/\t/other.test/", "http://UP/\t/other.test/"),
            ("/x", "/\t/other.test/", "/\t/other.test/"),
            ("/root/x", "http://UP/a\t", "/root/a"), ("/root/x", "http://UP/a\tb", "http://UP/a\tb"),
            ("/api/x", "/v1\\..\\..\\x", "/v1\\..\\..\\x"), ("/api/x", "/v1/\\x", "/v1/\\x"),
            ("/api/x", "http://UP/v1?a=\\", "http://UP/v1?a=\\"), ("/root/x", "/\t/x", "/\t/x"),
            ("/x", "hTTp://UP/new", "/new"), ("/x", "HTTPS://UP/new", "HTTPS://UP/new"),
            // The Host that the upstream has seen.
            ("/client/x", "http://localhost/c/new", "/client/new"), ("/client/x", "http://LOCALHOST:80/c", "/client"),
            ("/client/x", "https://localhost/c/new", "https://localhost/c/new"),
            ("/client/x", "http://UP/c/new", "/client/new"),
            ("/named/x", "http://named.test:8080/n/new", "/named/new"),
            ("/named/x", "http://named.test/n/new", "http://named.test/n/new"),
            ("/pass/x", "http://UP/p/new", "http://UP/p/new"), ("/pass/x", "/p/new", "/p/new"),
        ] {
            for name in ["Location", "Content-Location"] {
                let trimmed = expected.isEmpty ? "\(name):" : "\(name): \(expected)"
                let got = try await relay(path, "\(name): \(sent)")
                #expect(got.trimmingSuffix(" ") == trimmed, "\(path) \(sent)")
            }
        }
    }

    @Test("12.6 The client's Host is known behind an upload, too")
    func upload() async throws {
        #expect(
            try await relay("/client/x", "Location: http://localhost/c/new", "POST") == "Location: /client/new")
    }

    @Test("12.6 A cookie loses the upstream's own Domain, and its Path is mapped back")
    func cookies() async throws {
        let host = "127.0.0.1"
        for (path, sent, expected) in [
            ("/x", "a=1; Domain=\(host); Path=/y; Secure", "a=1; Path=/y; Secure"),
            ("/x", "a=1;domain=.\(host)", "a=1"),
            ("/x", "a=1; Domain=other.test; HttpOnly", "a=1; Domain=other.test; HttpOnly"),
            ("/x", "a=Domain=\(host)", "a=Domain=\(host)"),
            ("/x", "a=1; Path=/y;;  Max-Age=3", "a=1; Path=/y;;  Max-Age=3"),
            ("/api/x", "a=\"1\"; Path=/v1/y; HttpOnly", "a=\"1\"; Path=/api/y; HttpOnly"),
            ("/api/x", "a=1; path = /v1", "a=1; Path=/api"), ("/api/x", "a=1; Path=/", "a=1; Path=/"),
            ("/api/x", "a=1; Path=/v12", "a=1; Path=/v12"), ("/api/x", "a=1; Path=/v1/\\y", "a=1; Path=/v1/\\y"),
            ("/api/x", "a=1; Path=/v1/\ty", "a=1; Path=/v1/\ty"), ("/root/x", "a=1; Path=/", "a=1; Path=/root/"),
            ("/root/x", "__Host-a=1; Path=/; Secure", "__Host-a=1; Path=/; Secure"),
            ("/named/x", "a=1; Domain=NAMED.test; Path=/n/y", "a=1; Path=/named/y"),
            ("/client/x", "a=1; Domain=localhost; Path=/c", "a=1; Domain=localhost; Path=/client"),
            ("/pass/x", "a=1; Domain=\(host); Path=/p", "a=1; Domain=\(host); Path=/p"),
        ] {
            #expect(try await relay(path, "Set-Cookie: \(sent)") == "Set-Cookie: \(expected)", "\(path)")
        }
    }

    @Test("12.6 Link, Refresh and other fields with a reference become client-side addresses, Alt-Svc is dropped")
    func fields() async throws {
        for (path, sent, expected) in [
            ("/x", "Link: <http://UP/2>; rel=\"next\", </3>", "Link: <http://localhost/2>; rel=\"next\", </3>"),
            ("/api/x", "Link: <http://UP/v1/2>; rel=next,</v1/3>", "Link: <http://localhost/api/2>; rel=next,</api/3>"),
            ("/x", "Refresh: 0; url=http://UP/new", "Refresh: 0; url=/new"),
            ("/x", "Operation-Location: http://UP/state", "Operation-Location: http://localhost/state"),
            ("/x", "Azure-AsyncOperation: http://UP/state", "Azure-AsyncOperation: http://localhost/state"),
            (
                "/api/x", "X-Goog-Upload-URL: http://UP/v1/files?upload_id=1&x=%2f",
                "X-Goog-Upload-URL: http://localhost/api/files?upload_id=1&x=%2f"
            ),
            (
                "/x", "x-goog-upload-control-url: http://UP/files?a=b",
                "x-goog-upload-control-url: http://localhost/files?a=b"
            ),
            (
                "/api/x", "OData-EntityId: http://UP/v1/accounts(00-0a)",
                "OData-EntityId: http://localhost/api/accounts(00-0a)"
            ),
            ("/x", "OData-EntityId: http://other.test/a(1)", "OData-EntityId: http://other.test/a(1)"),
            ("/api/x", "X-Storage-Url: http://UP/v1/AUTH_a", "X-Storage-Url: http://localhost/api/AUTH_a"),
            ("/api/x", "HX-Redirect: /v1/login", "HX-Redirect: /api/login"),
            ("/api/x", "HX-Push-Url: false", "HX-Push-Url: false"),
            ("/api/x", "HX-Location: {\"path\":\"/v1/a\"}", "HX-Location: {\"path\":\"/v1/a\"}"),
            ("/api/x", "SourceMap: /v1/a.map", "SourceMap: /api/a.map"),
            ("/api/x", "X-SourceMap: /v1/a.map", "X-SourceMap: /api/a.map"),
            ("/api/x", "Service-Worker-Allowed: /v1/", "Service-Worker-Allowed: /api/"),
            ("/x", "Alt-Svc: h3=\":443\"", ""), ("/pass/x", "Alt-Svc: h3=\":443\"", "Alt-Svc: h3=\":443\""),
            ("/pass/x", "Link: <http://UP/p/2>", "Link: <http://UP/p/2>"),
            ("/more/x", "x-next: http://UP/m/2", "x-next: http://localhost/more/2"),
            ("/more/x", "X-Last: /m/9", "X-Last: /more/9"),
            ("/more/x", "X-Text: http://UP/m/2", "X-Text: http://UP/m/2"),
            ("/less/x", "X-Next: http://UP/m/2", "X-Next: http://UP/m/2"),
            ("/x", "X-Next: http://UP/2", "X-Next: http://UP/2"),
        ] {
            #expect(try await relay(path, sent) == expected, "\(path) \(sent)")
        }
    }

    @Test("12.6 An HTTP/1.0 client is known by the host of its target; without one a URL becomes a path")
    func withoutHost() async throws {
        for (target, expected) in [("http://LocalHost/x", "<http://LocalHost/2>"), ("/x", "</2>")] {
            let head = "GET \(target) HTTP/1.0\r\n\r\n"
            #expect(try await relay("", "Link: <http://UP/2>", head: head) == "Link: \(expected)")
        }
    }

    @Test("10.7 client-side Destination and If become the upstream's; a denied or another path is refused")
    func clientURLs() async throws {
        for (field, expected) in [
            ("Destination: http://localhost/dav/b", "Destination: http://up/d/b"),
            ("Destination: /dav/b", "Destination: /d/b"),
            ("Destination: http://other.test/dav/b", "Destination: http://other.test/dav/b"),
            ("If: <http://localhost/dav/b> (<urn:a>)", "If: <http://up/d/b> (<urn:a>)"),
            ("Destination: http://localhost/dav/denied/x", "403 denied-by-route"),
            ("Destination: /x", "403 denied-by-route"),
            ("Destination: evil:/d/denied/x", "400 malformed-request"),
            ("Destination: d/denied/x", "400 malformed-request"),
            ("If: </dav/denied/x> (<urn:a>)", "403 denied-by-route"), ("Destination: /dav/../x", "400 ambiguous-path"),
        ] {
            try await bench.startOver()
            let response = try await bench.ask(
                "COPY /dav/a HTTP/1.1\r\nHost: localhost\r\n\(field)\r\n\r\n", to: "COPY")
            if response.status == 200 {
                #expect(bench.received.joined().contains("\r\n\(expected)\r\n"), "\(field): \(bench.received)")
            } else {
                let type = try response.json["type"].string?.split(separator: ":").last ?? ""
                #expect("\(response.status) \(type)" == expected, "\(field)")
                #expect(bench.receivedWithoutFences == [])
            }
        }
    }

    @Test("12.6 A line that Connection names is not sent, whatever it says")
    func nominated() async throws {
        #expect(try await relay("/x", "Location: http://UP/new\r\nConnection: location") == "")
    }
}

extension String {
    fileprivate func trimmingSuffix(_ suffix: String) -> String {
        hasSuffix(suffix) ? String(dropLast(suffix.count)) : self
    }
}
