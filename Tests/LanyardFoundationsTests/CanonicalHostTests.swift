import Testing

@testable import LanyardFoundations

@Suite struct CanonicalHostTests {
    @Test(
        "a name is in lower case, without the dot of the root",
        arguments: [
            ("localhost", "localhost"), ("LocalHost", "localhost"), ("localhost.", "localhost"),
            ("API.Example.COM.", "api.example.com"), ("XN--MNCHEN-3YA.example", "xn--mnchen-3ya.example"),
            ("a_b-c", "a_b-c"), ("127.0.0.1", "127.0.0.1"), ("1.example.", "1.example"),
        ])
    func names(_ host: String, _ form: String) {
        #expect(CanonicalHost(host)?.text == form)
        #expect(CanonicalHost(form)?.text == form)
    }

    @Test("two dots, an empty label and a lone dot have no form, and an address has no root")
    func noNames() {
        let long = String(repeating: "a", count: 254)
        for host in ["", ".", "..", "a..", ".a", "a..b", "a..b.", "127.0.0.1.", "127.1.", "a.1.", long] {
            #expect(CanonicalHost(host) == nil, "\(host)")
        }
        #expect(CanonicalHost(String(long.dropLast()) + ".")?.text == String(long.dropLast()))
    }

    @Test(
        "other spellings of an IPv4 address are no address", arguments: ["127.1", "0x7f.1", "2130706433", "0177.0.0.1"])
    func oldSpellings(_ host: String) {
        #expect(CanonicalHost(host)?.text == host)
        #expect(CanonicalHost(host) != CanonicalHost("127.0.0.1"))
    }

    @Test(
        "an IPv6 address is written as RFC 5952 says, with or without brackets",
        arguments: [
            ("::1", "::1"), ("0:0:0:0:0:0:0:1", "::1"), ("::", "::"), ("0:0:0:0:0:0:0:0", "::"),
            ("2001:DB8::00AB", "2001:db8::ab"), ("2001:0db8:0:0:1:0:0:1", "2001:db8::1:0:0:1"),
            ("2001:db8:0:1:1:1:1:1", "2001:db8:0:1:1:1:1:1"), ("1:0:0:4:0:0:0:8", "1:0:0:4::8"),
            ("1::", "1::"), ("1:0:0:0:0:0:0:0", "1::"), ("1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7:8"),
            ("::FFFF:1.2.3.4", "::ffff:1.2.3.4"), ("::ffff:102:304", "::ffff:1.2.3.4"),
            ("0:0:0:0:0:ffff:7f00:1", "::ffff:127.0.0.1"), ("::1:2", "::1:2"), ("::1.2.3.4", "::102:304"),
            ("64:ff9b::1.2.3.4", "64:ff9b::102:304"), ("fe80::1000:10:a00:f", "fe80::1000:10:a00:f"),
            ("::ffff:0:0", "::ffff:0.0.0.0"), ("::ffff:255.100.9.10", "::ffff:255.100.9.10"),
        ])
    func addresses(_ host: String, _ form: String) {
        for spelling in [host, "[\(host)]"] {
            #expect(CanonicalHost(spelling)?.text == form)
            #expect(CanonicalHost(spelling)?.bracketed == "[\(form)]")
        }
    }

    @Test(
        "what is no IPv6 address has no form",
        arguments: [
            "[]", "[", "[::1", "::1]", "[::1]x", "[fe80::1%eth0]", "[fe80::1%25eth0]", "fe80::1%1", "[1.2.3.4]",
            "[localhost]",
            "[::1\u{0}]", "[:::1]", "[1:2:3:4:5:6:7]", "[1:2:3:4:5:6:7:8:9]", "[::1::2]", "[12345::]", "[g::1]",
            "[::1.2.3]", "[::1.2.3.256]", "[::1.02.3.4]", "[ ::1]", "localhost:80",
        ])
    func noAddresses(_ host: String) { #expect(CanonicalHost(host) == nil) }

    @Test("an IPv4 address and the IPv6 address that maps it are two hosts")
    func mapped() { #expect(CanonicalHost("::ffff:127.0.0.1") != CanonicalHost("127.0.0.1")) }
}
