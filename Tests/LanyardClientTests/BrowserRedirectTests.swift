import LanyardFoundations
import TestSupport
import Testing

@testable import LanyardClient

/// What a browser, and any other local client, gets at the address of a login by authorization code.
@Suite struct BrowserRedirectTests {
    private static let uri = "https://i.example/authorize?state=s-1&nonce=n-1&code_challenge=c-1"
    private static let host = "127.0.0.1:4000"

    private static func offered(port: UInt16 = 4000) -> BrowserRedirect {
        var redirect = BrowserRedirect(port: port)
        redirect.offer(uri)
        return redirect
    }

    /// One request: what the redirect does, and the response that it has for that.
    private static func ask(
        _ redirect: inout BrowserRedirect, _ target: String, method: String = "GET", host: String = host,
        fields: [String] = []
    ) -> BrowserRedirect.Step {
        let head = (["\(method) \(target) HTTP/1.1", "Host: \(host)"] + fields + ["", ""]).joined(separator: "\r\n")
        return Array(head.utf8).withUnsafeBytes { redirect.handle($0) }
    }

    private static func beginTarget(_ redirect: BrowserRedirect) -> String {
        String(redirect.beginURI.dropFirst("http://127.0.0.1:4000".count))
    }

    private static func text(_ redirect: BrowserRedirect, _ page: BrowserRedirect.Page) -> String {
        redirect.response(page, hasBody: true).withBytes { String(decoding: $0, as: UTF8.self) }
    }

    /// `NAME=VALUE` of a response.
    private static func cookie(_ response: String) -> String? {
        response.firstMatch(of: /Set-Cookie: ([^;]+); Path=\/; Max-Age=600; HttpOnly; SameSite=Lax\r\n/).map {
            String($0.1)
        }
    }

    @Test("the begin address leads to the service once and sets the cookie with which the browser comes back")
    func course() throws {
        var redirect = Self.offered()
        let begin = Self.beginTarget(redirect)
        #expect(begin.wholeMatch(of: /\/begin\/[0-9a-f]{64}/) != nil, "\(begin)")
        #expect(!redirect.beginURI.contains("s-1"))
        #expect(Self.ask(&redirect, begin) == .respond(.redirect, hasBody: true))
        let response = Self.text(redirect, .redirect)
        #expect(response.hasPrefix("HTTP/1.1 303 See Other\r\nLocation: \(Self.uri)\r\n"))
        for field in ["Cache-Control: no-store", "Referrer-Policy: no-referrer"] { #expect(response.contains(field)) }
        let cookie = try #require(Self.cookie(response))
        #expect(Self.ask(&redirect, begin) == .respond(.used, hasBody: true))
        #expect(Self.text(redirect, .used).hasPrefix("HTTP/1.1 410 Gone\r\n"))
        let back = Self.ask(&redirect, "/callback?code=x&state=y", fields: ["cookie: a=b; \(cookie) ; c=d"])
        guard case .visit(let query) = back else { throw TestFailure("\(back)") }
        #expect(query == Tokens.secret("code=x&state=y"))
        #expect(Self.text(redirect, .accepted).contains("=; Path=/; Max-Age=0"))
    }

    @Test("a callback without the cookie of this login is refused, and the login still waits for its browser")
    func foreign() throws {
        var redirect = Self.offered()
        let foreign = BrowserRedirect.Step.respond(.foreign, hasBody: true)
        #expect(Self.ask(&redirect, "/callback?code=x") == foreign, "nobody has opened the address")
        _ = Self.ask(&redirect, Self.beginTarget(redirect))
        let cookie = try #require(Self.cookie(Self.text(redirect, .redirect)))
        let value = cookie.drop { $0 != "=" }.dropFirst()
        let wrong: [[String]] = [
            [], ["Cookie: "], ["Cookie: \(cookie)0"], ["Cookie: \(cookie.dropLast())"], ["Cookie: x\(cookie)"],
            ["Cookie: lanyard_login_4000="], ["Cookie: lanyard_login_4000"], ["Cookie: lanyard_login_4001=\(value)"],
            ["X-Cookie: \(cookie)"], ["Cookie: lanyard_login_4000=\"\(value)\""],
        ]
        for fields in wrong { #expect(Self.ask(&redirect, "/callback?code=x", fields: fields) == foreign, "\(fields)") }
        #expect(Self.text(redirect, .foreign).hasPrefix("HTTP/1.1 400 Bad Request\r\n"))
        let back = Self.ask(
            &redirect, "/callback?code=x", fields: ["Cookie: lanyard_login_4000=0", "Cookie: \(cookie)"])
        #expect(back == .visit(Tokens.secret("code=x")), "a cookie of the same name from another port stands beside it")
    }

    @Test("two logins at once have two cookies, and the cookie of one is not that of the other")
    func two() throws {
        var (first, second) = (Self.offered(), Self.offered(port: 4001))
        let target = String(second.beginURI.dropFirst("http://127.0.0.1:4001".count))
        #expect(Self.ask(&second, target, host: "127.0.0.1:4001") == .respond(.redirect, hasBody: true))
        _ = Self.ask(&first, Self.beginTarget(first))
        let cookies = try [first, second].map { try #require(Self.cookie(Self.text($0, .redirect))) }
        #expect(Set(cookies.map { $0.prefix { $0 != "=" } }).count == 2)
        let field = "Cookie: " + cookies.joined(separator: "; ")
        #expect(Self.ask(&first, "/callback?code=1", fields: [field]) == .visit(Tokens.secret("code=1")))
        #expect(
            Self.ask(&second, "/callback?code=2", host: "127.0.0.1:4001", fields: [field])
                == .visit(Tokens.secret("code=2")))
        // A login that comes behind at the same port takes no cookie of the one before.
        var later = Self.offered()
        _ = Self.ask(&later, Self.beginTarget(later))
        #expect(Self.ask(&later, "/callback?code=1", fields: [field]) == .respond(.foreign, hasBody: true))
    }

    @Test("what a browser does by itself opens nothing: HEAD, a prefetch, an icon, a part of another page")
    func byItself() {
        var redirect = Self.offered()
        let begin = Self.beginTarget(redirect)
        #expect(Self.ask(&redirect, begin, method: "HEAD") == .respond(.notFound, hasBody: false))
        #expect(
            !redirect.response(.notFound, hasBody: false).withBytes { String(decoding: $0, as: UTF8.self) }
                .contains("There is"))
        let ahead: [String] = [
            "Sec-Purpose: prefetch;prerender", "Purpose: prefetch", "X-Moz: prefetch", "X-Purpose: preview",
            "Sec-Fetch-Dest: image", "Sec-Fetch-Dest: iframe",
        ]
        for field in ahead {
            #expect(Self.ask(&redirect, begin, fields: [field]) == .respond(.notFound, hasBody: true), "\(field)")
        }
        for target in ["/favicon.ico", "/", "/begin/", begin + "0", begin + "?x", "/begin/0", "/callback", "*"] {
            #expect(Self.ask(&redirect, target) == .respond(.notFound, hasBody: true), "\(target)")
        }
        #expect(Self.ask(&redirect, begin, method: "POST") == .respond(.notFound, hasBody: true))
        let own = ["Sec-Fetch-Dest: document", "Sec-Fetch-Site: none", "Sec-Fetch-Mode: navigate"]
        #expect(Self.ask(&redirect, begin, fields: own) == .respond(.redirect, hasBody: true))
    }

    @Test("another name in Host, none, or two of them get nothing (DNS rebinding)")
    func hosts() {
        var redirect = Self.offered()
        let begin = Self.beginTarget(redirect)
        let hosts = [
            "evil.example", "evil.example:4000", "127.0.0.1", "127.0.0.1:4001", "127.0.0.1:4000.evil.example", "",
            "127.0.0.1:4000\r\nHost: evil.example", "127.0.0.1:4000\r\nHost: 127.0.0.1:4000", "localhost:4000",
        ]
        for host in hosts {
            #expect(Self.ask(&redirect, begin, host: host) == .respond(.notFound, hasBody: true), "\(host)")
        }
        #expect(Self.ask(&redirect, begin, host: " 127.0.0.1:4000 ") == .respond(.redirect, hasBody: true))
        var standard = Self.offered(port: 80)
        let target = String(standard.beginURI.dropFirst("http://127.0.0.1:80".count))
        #expect(Self.ask(&standard, target, host: "127.0.0.1") == .respond(.redirect, hasBody: true))
    }

    @Test(
        "a request with bytes that no address has is refused",
        arguments: [0x00, 0x09, 0x0d, 0x1b, 0x7f, 0x80, 0xc3, 0xff] as [UInt8])
    func bytes(_ byte: UInt8) {
        var redirect = Self.offered()
        let head = Array("GET /callback?x=".utf8) + [byte] + Array(" HTTP/1.1\r\nHost: \(Self.host)\r\n\r\n".utf8)
        let step = head.withUnsafeBytes { redirect.handle($0) }
        #expect(step == .respond(.malformed, hasBody: true))
    }

    @Test(
        "what is no request of HTTP/1 finds nothing",
        arguments: [
            "", "\r\n", "GET", "GET /callback?x", "GET  HTTP/1.1", "\u{16}\u{3}\u{1}", "PRI * HTTP/2.0", ":\n:",
        ])
    func noRequest(_ text: String) {
        var redirect = Self.offered()
        let step = Array("\(text)\r\n\r\n".utf8).withUnsafeBytes { redirect.handle($0) }
        #expect(step == .respond(.notFound, hasBody: true))
    }

    @Test("before the login has an address nothing opens; a redirect that was not sent is made again")
    func unsent() {
        var redirect = BrowserRedirect(port: 4000)
        let begin = Self.beginTarget(redirect)
        #expect(Self.ask(&redirect, begin) == .respond(.notFound, hasBody: true))
        redirect.offer(Self.uri)
        #expect(Self.ask(&redirect, begin) == .respond(.redirect, hasBody: true))
        redirect.handleUnsentRedirect()
        #expect(Self.ask(&redirect, begin) == .respond(.redirect, hasBody: true))
    }
}

/// Which addresses a user is led to.
@Suite struct WebAddressTests {
    @Test(
        "http and https alone, with a host and without user info",
        arguments: [
            ("https://i.example/device?c=1", "i.example"), ("HTTP://[::1]:8080/a#b", "[::1]:8080"),
            ("http://127.0.0.1:1", "127.0.0.1:1"), ("https://i.example?x=https://@y", "i.example"),
            ("javascript:alert(1)", nil), ("file:///etc/passwd", nil), ("slack://open", nil), ("data:text/html,x", nil),
            ("https:i.example", nil), ("https://", nil), ("https:///x", nil), ("//i.example", nil), ("", nil),
            (" https://i.example", nil), ("https://i.example/a b", nil), ("https://i.example/\u{7f}", nil),
            ("https://i.example/\u{e9}", nil), ("https://good.example@evil.example/", nil),
            ("https://good.example\\@evil.example/", nil), ("https://:80/", nil),
        ] as [(String, String?)])
    func addresses(_ text: String, _ authority: String?) {
        #expect(WebAddress(text)?.authority == authority)
    }
}
