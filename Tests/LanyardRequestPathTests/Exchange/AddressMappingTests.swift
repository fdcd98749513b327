import LanyardSettings
import TestSupport
import Testing

@testable import LanyardRequestPath

/// What a client gets of an upstream's own addresses (http-forwarding.md 12.6).
@Suite struct AddressMappingTests {
    /// A mapping of the route `/api`, which replaces its prefix, or of `/`, which replaces nothing.
    private struct Bench {
        let route: Route
        var isTLS = true
        var isClientTLS = false
        var authority = "up.test"

        init(_ base: String? = nil, _ configure: (inout RouteSettings) -> Void = { _ in }) {
            var settings = RouteSettings(name: "r")
            (settings.path, settings.upstreamPath) = (base == nil ? "/" : "/api", base)
            configure(&settings)
            route = Route(settings, index: 0, user: nil)
        }

        /// The value that the client gets; nil: the line is dropped.
        func map(_ value: String, _ field: AddressMapping.Field = .location, clientHost: String = "") -> String? {
            Array(clientHost.utf8).withUnsafeBufferPointer { host in
                Array(value.utf8).withUnsafeBufferPointer { bytes in
                    let mapping = AddressMapping(
                        route: route, isTLS: isTLS, isClientTLS: isClientTLS, authority: Array(authority.utf8),
                        clientHost: host)
                    var growth = AddressMapping.Growth()
                    switch mapping.change(of: bytes, field, &growth) {
                    case .none: return value
                    case .dropped: return nil
                    case .mapped:
                        var out = HeadWriter()
                        mapping.write(bytes, field, into: &out)
                        return String(decoding: out.bytes, as: UTF8.self)
                    }
                }
            }
        }

        /// What becomes of the value in a head whose other values have used some of its growth.
        func change(
            _ value: String, _ field: AddressMapping.Field, _ growth: inout AddressMapping.Growth
        ) -> AddressMapping.Change {
            Array(value.utf8).withUnsafeBufferPointer { bytes in
                AddressMapping(
                    route: route, isTLS: isTLS, isClientTLS: isClientTLS, authority: Array(authority.utf8),
                    clientHost: Bytes(start: nil, count: 0)
                ).change(of: bytes, field, &growth)
            }
        }
    }

    @Test("12.6 an https upstream names itself by http, with the dot of the root, a default port, in capitals")
    func ownNames() {
        let bench = Bench()
        for own in [
            "https://up.test", "http://up.test", "HTTP://UP.TEST", "https://up.test.", "http://up.test.:80",
            "//up.test.",
            "http://up.test:80", "https://up.test:443", "http://up.test:443", "//up.test", "//up.test:443",
        ] {
            #expect(bench.map("\(own)/new?a=1") == "/new?a=1", "\(own)")
        }
        for other in [
            "http://up.test:8080", "https://up.test:80", "https://me@up.test", "https://up.test..", "https://up.test:",
            "http://.up.test",
            "https://up.test.other.test", "https://other.test", "ftp://up.test", "https:/up.test", "//up.test:80",
        ] {
            #expect(bench.map("\(other)/new") == "\(other)/new")
        }
    }

    @Test(
        "12.6 another port of an https upstream is its own by http with the same port only, and http goes nowhere by https"
    )
    func ports() {
        var bench = Bench()
        bench.authority = "up.test:8443"
        #expect(bench.map("http://up.test:8443/x") == "/x" && bench.map("https://UP.test.:8443/x") == "/x")
        for other in ["http://up.test/x", "https://up.test/x", "http://up.test:80/x", "https://up.test:443/x"] {
            #expect(bench.map(other) == other)
        }
        // The upstream sends clients to another service of its, to which Lanyard has no route.
        var plain = Bench()
        plain.isTLS = false
        #expect(plain.map("https://up.test/x") == "https://up.test/x" && plain.map("http://up.test.:80/x") == "/x")
        plain.authority = "[::1]:81"
        #expect(plain.map("http://[0:0::1]:81/x") == "/x" && plain.map("http://[::1]/x") == "http://[::1]/x")
    }

    @Test("12.6 the Host that the upstream has seen is its name by http, too")
    func seenHosts() {
        let client = Bench("/v1") { $0.host = .client }
        #expect(client.map("http://localhost.:80/v1/x", clientHost: "localhost") == "/api/x")
        #expect(client.map("https://localhost:7400/v1/x", clientHost: "localhost:7400") == "/api/x")
        let named = Bench { $0.host = .value("Named.test:9") }
        #expect(
            named.map("http://named.test.:9/x") == "/x" && named.map("http://named.test/x") == "http://named.test/x")
    }

    @Test("12.6 a URL that programs use as it is stays one, a client-side one")
    func urls() {
        var bench = Bench("/v1")
        for (sent, expected) in [
            ("https://up.test/v1/2?p=2", "http://me:1/api/2?p=2"), ("//UP.test./v1//x", "//me:1/api//x"),
            ("http://up.test/v1", "http://me:1/api"), ("/v1/2", "/api/2"), ("2", "2"),
            ("https://up.test/v2", "https://up.test/v2"),
        ] {
            #expect(bench.map(sent, .reference, clientHost: "me:1") == expected, "\(sent)")
            #expect(bench.map("<\(sent)>; rel=next", .links, clientHost: "me:1") == "<\(expected)>; rel=next")
        }
        bench.isClientTLS = true
        #expect(bench.map("http://up.test/v1/2", .reference, clientHost: "me") == "https://me/api/2")
        // The client's Host is not known.
        #expect(bench.map("https://up.test/v1/2", .reference) == "/api/2")
        #expect(Bench().map("https://up.test//x", .reference, clientHost: "me") == "http://me//x")
        #expect(Bench().map("https://up.test", .reference, clientHost: "me") == "http://me/")
    }

    @Test("12.6 dot segments that lead out of the upstream's path lead to no client-side route")
    func dotSegments() {
        let bench = Bench("/v1")
        for way in ["/../x", "/%2e%2E/x", "/..", "/.%2e?a", "/a/../../x", "/./../x", "/a/b/../../..#c", "//../../x"] {
            for sent in ["/v1\(way)", "https://up.test/v1\(way)"] {
                #expect(bench.map(sent) == sent, "\(sent)")
                #expect(bench.map(sent, .reference, clientHost: "me") == sent)
                #expect(bench.map("<\(sent)>", .links, clientHost: "me") == "<\(sent)>")
                #expect(bench.map("0;\(sent)", .refresh) == "0;\(sent)")
            }
        }
        for way in [
            "/a/../x", "/./x", "/a/..", "/.../x", "/..a/../x", "/%2e%2ea", "?/../x", "#/..", "/x?a=/../..", "//..",
        ] {
            #expect(bench.map("/v1\(way)") == "/api\(way)", "\(way)")
        }
        #expect(Bench().map("https://up.test/../x") == "/../x", "the route keeps every path")
    }

    @Test("12.6 Link: each target and anchor, whatever stands between them")
    func links() {
        let bench = Bench()
        for (sent, expected) in [
            ("<https://up.test/2>; rel=\"next\"", "</2>; rel=\"next\""),
            (
                "<http://up.test./2>;rel=next, <https://other.test/>; rel=a,<//up.test>",
                "</2>;rel=next, <https://other.test/>; rel=a,</>"
            ),
            ("</2>; rel=next", "</2>; rel=next"), ("<>; rel=self", "<>; rel=self"), ("", ""),
            (
                "<https://up.test/a,b;c>; title=\"a, <https://up.test/x>; \\\" b\"; anchor=\"https://up.test/y\"",
                "</a,b;c>; title=\"a, <https://up.test/x>; \\\" b\"; anchor=\"/y\""
            ),
            ("<x> ; ANCHOR = https://up.test/y ; rel=\"a\"", "<x> ; ANCHOR = /y ; rel=\"a\""),
            ("<x>; anchor=\"https://up.test/\\y\"", "<x>; anchor=\"https://up.test/\\y\""),
            (", ,<https://up.test/1>,,\t<https://up.test/2> ,", ", ,</1>,,\t</2> ,"),
            ("<https://up.test/1>; rel; anchor", "</1>; rel; anchor"),
            // No list of links: what follows stays.
            ("<https://up.test/1> x, <https://up.test/2>", "</1> x, </2>"),
            ("<https://up.test/1", "<https://up.test/1"), ("https://up.test/1", "https://up.test/1"),
            ("<https://up.test/1>; a=\"b, <https://up.test/2>", "</1>; a=\"b, <https://up.test/2>"),
        ] {
            #expect(bench.map(sent, .links) == expected, "\(sent)")
        }
        let mapped = Bench("/v1")
        #expect(
            mapped.map("</v1/2>; rel=next, </other>, <https://up.test/v1>", .links)
                == "</api/2>; rel=next, </other>, </api>")
    }

    @Test("12.6 Refresh: the reference behind the seconds, as browsers read it")
    func refresh() {
        let bench = Bench()
        for (sent, expected) in [
            ("5; url=https://up.test/x", "5; url=/x"), ("0;URL='http://up.test/x' y", "0;URL='/x' y"),
            ("3,Url = \"https://up.test./x\"", "3,Url = \"/x\""), ("1 https://up.test/x", "1 /x"),
            ("1.5;https://up.test/x", "1.5;/x"), ("2; url=https://up.test/'x", "2; url=/'x"),
            ("2; url='https://up.test/x", "2; url='/x"),
            ("5", "5"), ("5;", "5;"), ("5; url=", "5; url="), ("5; url=/x", "5; url=/x"), ("", ""), ("5x", "5x"),
            ("url=https://up.test/x", "url=https://up.test/x"),
            ("5; url=https://other.test/", "5; url=https://other.test/"),
        ] {
            #expect(bench.map(sent, .refresh) == expected, "\(sent)")
        }
    }

    @Test("12.6 a Link of thousands of short references below a mapped prefix is dropped, not made many times as long")
    func growth() {
        let bench = Bench("/") { $0.path = "/" + String(repeating: "a", count: 200) }
        let links = Array(repeating: "</>", count: 80).joined(separator: ",")
        #expect(bench.map(links, .links)?.utf8.count == 80 * 204 + 79)
        #expect(bench.map(Array(repeating: "</>", count: 20_000).joined(separator: ","), .links) == nil)
    }

    @Test("12.6 all values of a head share what they may grow by; one that would grow beyond is dropped")
    func sharedGrowth() {
        let bench = Bench("/") { $0.path = "/" + String(repeating: "a", count: 1000) }
        for (value, field, each) in [
            ("/", AddressMapping.Field.location, 1001), ("/", .reference, 1001), ("0;/", .refresh, 1001),
            ("a=1; Path=/", .cookie, 1002), ("</>", .links, 1001),
        ] {
            var growth = AddressMapping.Growth()
            var changes: [AddressMapping.Change] = []
            for _ in 0..<100 { changes.append(bench.change(value, field, &growth)) }
            #expect(changes.count { $0 == .mapped } == (64 << 10) / each, "\(field)")
            #expect(changes.last == .dropped && bench.change("/other", .cookie, &growth) == .none)
        }
    }

    @Test("12.6 a client without TLS gets no cookie that it could not send back: Secure goes, with what demands it")
    func secureCookies() {
        let bench = Bench()
        for (sent, expected) in [
            ("a=1; Secure", "a=1"), ("a=1;SECURE ;HttpOnly", "a=1;HttpOnly"), ("a=1; Secure; Secure=x", "a=1"),
            ("a=1; Path=/; Secure; SameSite=None; Partitioned; Max-Age=5", "a=1; Path=/; Max-Age=5"),
            ("a=1; samesite = none; secure; Priority=High", "a=1; Priority=High"),
            ("a=1; SameSite=Lax; Secure", "a=1; SameSite=Lax"),
            ("a=1; SameSite=Strict; Secure", "a=1; SameSite=Strict"),
            ("a=Secure", "a=Secure"), ("a=1; SameSite=None; Partitioned", "a=1; SameSite=None; Partitioned"),
            ("a=1; Secure; Domain=other.test", "a=1; Domain=other.test"),
            ("a=1; Secure; Expires=Wed, 21 Oct 2026 07:28:00 GMT", "a=1; Expires=Wed, 21 Oct 2026 07:28:00 GMT"),
            ("a=1; Secure; Unknown=Secure; Secured", "a=1; Unknown=Secure; Secured"), ("a=1; ;;Secure;", "a=1; ;;"),
            ("__Secure-a=1; Secure; SameSite=None", "__Secure-a=1; Secure; SameSite=None"),
            ("__Host-a=1; Path=/; Secure", "__Host-a=1; Path=/; Secure"),
            ("__SECURE-a=1; Secure; Domain=up.test", "__SECURE-a=1; Secure"),
            ("__Host-Http-a=1; Path=/; Secure; HttpOnly", "__Host-Http-a=1; Path=/; Secure; HttpOnly"),
            ("__Http-a=1; Secure; HttpOnly", "__Http-a=1; Secure; HttpOnly"),
        ] {
            #expect(bench.map(sent, .cookie) == expected, "\(sent)")
        }
        for (isTLS, isClientTLS) in [(true, true), (false, false), (false, true)] {
            var other = Bench()
            (other.isTLS, other.isClientTLS) = (isTLS, isClientTLS)
            #expect(other.map("a=1; Secure; SameSite=None", .cookie) == "a=1; Secure; SameSite=None")
        }
    }

    @Test("12.6 of several attributes of a cookie the last one counts, and the line does not grow")
    func repeatedAttributes() throws {
        let bench = Bench("/v1")
        for (sent, expected) in [
            ("a=1; Path=/v1/x; Path=/v1/y; HttpOnly", "a=1; Path=/api/y; HttpOnly"),
            ("a=1; Path=/v1/x; Path=/other", "a=1; Path=/v1/x; Path=/other"),
            ("a=1; Path=/v1/x; Path", "a=1; Path=/v1/x; Path"),
            ("a=1; Path=/other; HttpOnly; Path=/v1", "a=1; HttpOnly; Path=/api"),
            ("a=1; Domain=other.test; Domain=up.test", "a=1"), ("a=1; Domain=up.test.; Path=/", "a=1; Path=/"),
            ("a=1; Domain=up.test; Domain=other.test", "a=1; Domain=up.test; Domain=other.test"),
            ("a=1; Domain=UP.test; HttpOnly; domain = .up.test", "a=1; HttpOnly"),
            ("a=1; Domain=up.test:1", "a=1; Domain=up.test:1"),
        ] {
            #expect(bench.map(sent, .cookie) == expected, "\(sent)")
        }
        let long = Bench("/") { $0.path = "/" + String(repeating: "a", count: 1_000) }
        for attribute in [";Path=/", ";", ";x", ";Domain=up.test", ";Secure"] {
            let sent = "a=1; Path=/; Secure" + String(repeating: attribute, count: 60_000 / attribute.utf8.count)
            let mapped = try #require(long.map(sent, .cookie))
            #expect(mapped.utf8.count <= sent.utf8.count + 1_000, "\(attribute)")
        }
    }
}
