import LanyardRequestPath
import Testing

@Suite struct HostTests {
    private static func split(_ value: String) -> (host: String, port: UInt16?)? {
        let bytes = value.unicodeScalars.map { UInt8($0.value) } + [0]
        return bytes.withUnsafeBufferPointer { all in
            let value = Bytes(rebasing: all.dropLast())
            return HostValue.split(value).map { (String(decoding: value[run: $0.host], as: UTF8.self), $0.port) }
        }
    }

    @Test(
        "host, or host and port",
        arguments: [
            ("localhost", "localhost", nil), ("localhost:7400", "localhost", 7400), ("127.0.0.1:0", "127.0.0.1", 0),
            ("a:65535", "a", 65535), ("a:00080", "a", 80), ("[::1]", "[::1]", nil), ("[::1]:7400", "[::1]", 7400),
            ("[1:2:3:4:5:6:7:8]:1", "[1:2:3:4:5:6:7:8]", 1), ("[::ffff:1.2.3.4]", "[::ffff:1.2.3.4]", nil),
            ("[fe80::1:2]", "[fe80::1:2]", nil), ("[1::]", "[1::]", nil), ("[::]", "[::]", nil),
            ("a_b~c!.d", "a_b~c!.d", nil),
            ("a%41b", "a%41b", nil), ("[1:2:3:4:5:6:1.2.3.4]", "[1:2:3:4:5:6:1.2.3.4]", nil),
        ] as [(String, String, UInt16?)])
    func good(_ value: String, _ host: String, _ port: UInt16?) {
        let result = Self.split(value)
        #expect(result?.host == host)
        #expect(result?.port == port)
    }

    @Test(
        "anything else is no Host",
        arguments: [
            "", ":", ":80", "a:", "a:x", "a:+8", "a: 80", "a:65536", "a:99999", "a:000080", "a:80:80", "a b", "a,b",
            "a/b", "a?b", "a#b",
            "u@a", "u:p@a", "\"a\"", "a\\b", "<a>", "a%", "a%4", "a%4x", "a\u{e9}", "[", "[]", "[]:1", "[::1", "::1",
            "[::1]x", "[::1]:", "[::1]80",
            "[:::1]", "[1:2:3:4:5:6:7]", "[1:2:3:4:5:6:7:8:9]", "[::1::2]", "[12345::]", "[::1%25eth0]", "[g::1]",
            "[1:]", "[:1]",
            "[::1.2.3]", "[::1.2.3.256]", "[::1.2.3.4.5]", "[1.2.3.4]", "[1:2:3:4:5:6:7:1.2.3.4]", "[v1.a]",
            "@a", "a/", "a, a", "a,", ",a", "::1]", "[::g]", "[::1]:x", "[::1::]", "[fe80::1%eth0]", "a:-1",
            "a:8 0", "http://a", "%zz", "{a}", "a|b", "a^b", "a`b", "\u{e9}.test", "a\u{80}",
        ])
    func bad(_ value: String) { #expect(Self.split(value) == nil) }

    private static func check(_ hosts: AllowedHosts, _ value: String) -> AllowedHosts.Decision {
        Array(value.utf8 + [0]).withUnsafeBufferPointer { hosts.check(Bytes(rebasing: $0.dropLast())) }
    }

    @Test(
        "allowed are name and port together, in any case",
        arguments: [
            ("127.0.0.1:7400", .allowed), ("LocalHost:7400", .allowed), ("localhost", .unknown),
            ("localhost:7401", .unknown),
            ("evil:7400", .unknown), ("localhost:7400.evil", .malformed), ("localhost:", .malformed), ("", .malformed),
            ("localhost.:7400", .allowed), ("localhost..:7400", .unknown), ("web", .allowed), ("web:80", .allowed),
            ("plain", .allowed),
            ("xlocalhost:7400", .unknown), ("localhos:7400", .unknown), ("local%68ost:7400", .unknown),
            ("127.0.0.1", .unknown), ("[::1]", .unknown), ("[2001:DB8::1]", .allowed), ("[2001:db8::1]:80", .allowed),
            ("[2001:db8::2]", .unknown), ("2001", .unknown), ("a_b~!$&'()*+;=c", .unknown), ("web:8080", .unknown),
        ] as [(String, AllowedHosts.Decision)])
    func allowed(_ value: String, _ verdict: AllowedHosts.Decision) {
        let hosts = AllowedHosts(["127.0.0.1:7400", "localhost:7400", "WEB:80", "plain", "[2001:db8::1]:80"])
        #expect(Self.check(hosts, value) == verdict)
    }

    @Test("a unix socket takes any sound host")
    func unix() {
        let hosts = AllowedHosts(nil)
        #expect(Self.check(hosts, "anything:1") == .allowed)
        #expect(Self.check(hosts, "a b") == .malformed)
    }

    @Test("the health listener takes every IP literal, whatever the port, and no names")
    func literals() {
        let hosts = AllowedHosts(["localhost:9"], allowsLiterals: true)
        #expect(Self.check(hosts, "10.1.2.3:9") == .allowed)
        #expect(Self.check(hosts, "[fd00::1]:9") == .allowed)
        #expect(Self.check(hosts, "10.1.2.3:8") == .allowed)
        #expect(Self.check(hosts, "10.1.2.3.evil:9") == .unknown)
        #expect(Self.check(hosts, "10.1.2.3") == .allowed)
        for value in ["10.1", "10.1.2", "10.1.2.3.", "10.01.2.3", "0xa.1.2.3", "10.1.2.256", "1.2.3.4.5"] {
            #expect(Self.check(hosts, value) == .unknown, "\(value)")
        }
    }
}
