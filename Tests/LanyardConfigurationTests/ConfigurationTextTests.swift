import Testing

@testable import LanyardConfiguration
@testable import LanyardSettings

/// Single values and their units.
@Suite struct ConfigurationTextTests {
    @Test(
        "a duration is a whole number and a unit",
        arguments: [
            ("500ms", .milliseconds(500)), ("90s", .seconds(90)), ("30m", .seconds(1800)), ("12h", .seconds(43200)),
            ("60d", .seconds(5_184_000)), ("0s", .zero), ("5", nil), ("5 s", nil), ("-5s", nil), ("+5s", nil),
            ("1.5s", nil), ("1h30m", nil), ("s", nil), ("", nil), ("5S", nil), ("٥s", nil),
            ("9223372036854775807d", nil), ("99999999999999999999s", nil),
        ] as [(String, Duration?)])
    func durations(_ text: String, _ expected: Duration?) { #expect(ConfigurationText.duration(text) == expected) }

    @Test(
        "a size is a whole number and a unit of 1024s",
        arguments: [
            ("100B", 100), ("64KiB", 65536), ("16MiB", 16 << 20), ("2GiB", 2 << 30), ("1TiB", 1 << 40), ("0B", 0),
            ("64", nil), ("64KB", nil), ("64k", nil), ("-1B", nil), ("1.5MiB", nil), ("9999999999TiB", nil),
        ] as [(String, Int64?)])
    func sizes(_ text: String, _ expected: Int64?) { #expect(ConfigurationText.size(text) == expected) }

    @Test(
        "a part of a lifetime is one or two percentages in order",
        arguments: [
            ("65-75%", 0.65...0.75), ("70%", 0.7...0.7), ("75-65%", nil), ("0-50%", nil), ("50-100%", nil),
            ("65-75", nil), ("-75%", nil), ("65-%", nil), ("%", nil), ("65%-75%", nil),
        ] as [(String, ClosedRange<Double>?)])
    func portions(_ text: String, _ expected: ClosedRange<Double>?) {
        #expect(ConfigurationText.portion(text) == expected)
    }

    @Test(
        "permissions are octal",
        arguments: [
            ("0600", 0o600), ("0660", 0o660), ("660", nil), ("0888", nil), ("60", nil), ("7777", nil), ("00600", nil),
        ])
    func modes(_ text: String, _ expected: UInt16?) { #expect(ConfigurationText.mode(text) == expected) }

    @Test("durations and sizes are printed in the largest unit that fits")
    func printed() {
        #expect(ConfigurationText.formatted(.milliseconds(1500)) == "1500ms")
        #expect(ConfigurationText.formatted(.seconds(90)) == "90s")
        #expect(ConfigurationText.formatted(.seconds(3600)) == "1h")
        #expect(ConfigurationText.formatted(.zero) == "0s")
        #expect(ConfigurationText.formatted(.seconds(Int64.max)).hasSuffix("d"))
        #expect(ConfigurationText.formatted(bytes: 65536) == "64KiB")
        #expect(ConfigurationText.formatted(bytes: 100) == "100B")
    }

    @Test(
        "a listener's address is a literal or localhost with a port, or a socket's path",
        arguments: [
            ("127.0.0.1:7400", .tcp(host: "127.0.0.1", port: 7400)), ("localhost:0", .tcp(host: "localhost", port: 0)),
            ("[::1]:7400", .tcp(host: "::1", port: 7400)), ("unix:/run/l.sock", .unix(path: "/run/l.sock")),
            ("LOCALHOST:1", .tcp(host: "localhost", port: 1)),
            ("127.0.0.1", nil), (":7400", nil), ("7400", nil), ("::1:7400", nil), ("[::1]7400", nil), ("[::g]:1", nil),
            ("127.1:7400", nil), ("example.com:80", nil), ("127.0.0.1:65536", nil), ("127.0.0.1:080", nil),
            ("127.0.0.1\0x:7400", nil), ("unix:l.sock", nil), ("unix:/" + String(repeating: "a", count: 107), nil),
            ("[FE80::0:1%25eth0]:1", .tcp(host: "fe80::1%eth0", port: 1)),
            ("[fe80::1%lo]:1", .tcp(host: "fe80::1%lo", port: 1)),
            ("[fe80::1%25]:1", .tcp(host: "fe80::1%25", port: 1)),
            ("[fe80::1%]:1", nil), ("[fe80::1%25a b]:1", nil), ("[::1%25lo]:1", nil), ("[fe80::1%25eth0%25]:1", nil),
            ("[fe80::1%25eth0]:99999", nil), ("[fe80::1%25abcdefghijklmnop]:1", nil), ("fe80::1%eth0:1", nil),
            ("127.0.0.1%lo:1", nil), ("127.0.0.1:7400/", nil), ("[::ffff:127.0.0.1]:7400", nil),
            ("[fe80::1]:7400", nil), ("[FEBF:0::1]:0", nil), ("[fec0::1]:1", .tcp(host: "fec0::1", port: 1)),
            ("169.254.1.1:1", .tcp(host: "169.254.1.1", port: 1)), ("[::FFFF:0.0.0.0]:7400", nil),
            ("[0:0:0:0:0:ffff:7f00:1]:7400", nil),
        ] as [(String, ListenerSettings.Address?)])
    func addresses(_ text: String, _ expected: ListenerSettings.Address?) {
        #expect((try? AddressText.listenAddress(text)) == expected)
    }

    @Test(
        "an address is judged by whom it reaches, in whatever spelling",
        arguments: [
            ("127.0.0.1", .loopback), ("127.255.0.9", .loopback), ("::1", .loopback), ("0:0:0:0:0:0:0:1", .loopback),
            ("localhost", .loopback), ("::ffff:127.0.0.1", .loopback), ("0.0.0.0", .wildcard), ("::", .wildcard),
            ("169.254.169.254", .linkLocal), ("::ffff:169.254.169.254", .linkLocal), ("fe80::1", .linkLocal),
            ("febf::1", .linkLocal), ("fec0::1", .elsewhere), ("10.0.0.1", .elsewhere), ("2001:db8::1", .elsewhere),
            ("localhost.example.com", .name),
        ] as [(String, AddressText.Reach)])
    func reach(_ host: String, _ expected: AddressText.Reach) { #expect(AddressText.reach(host) == expected) }

    @Test("two addresses clash if one bind would fail")
    func clash() {
        func tcp(_ host: String, _ port: UInt16) -> ListenerSettings.Address { .tcp(host: host, port: port) }
        #expect(AddressText.clash(tcp("127.0.0.1", 1), tcp("localhost", 1)))
        #expect(AddressText.clash(tcp("127.0.0.1", 1), tcp("0.0.0.0", 1)))
        #expect(AddressText.clash(.unix(path: "/a"), .unix(path: "/a")))
        #expect(!AddressText.clash(tcp("127.0.0.1", 0), tcp("127.0.0.1", 0)))
        #expect(!AddressText.clash(tcp("127.0.0.1", 1), tcp("127.0.0.1", 2)))
        // An IPv6 socket takes no IPv4 connection.
        #expect(!AddressText.clash(tcp("127.0.0.1", 1), tcp("::", 1)))
        #expect(!AddressText.clash(tcp("0.0.0.0", 1), tcp("::", 1)))
        #expect(!AddressText.clash(tcp("0.0.0.0", 1), tcp("::1", 1)))
        #expect(AddressText.clash(tcp("::", 1), tcp("::1", 1)))
        // One address in two spellings.
        #expect(AddressText.clash(tcp("::1", 1), tcp("0:0:0:0:0:0:0:1", 1)))
        #expect(AddressText.clash(tcp("2001:db8::a", 1), tcp("2001:DB8:0::A", 1)))
    }

    @Test("the path of an upstream tells a base path from none")
    func upstreams() throws {
        #expect(
            try URLText.upstream("http://Api.Internal:8080/v1/")
                == .init(
                    endpoint: .tcp(host: "api.internal", port: 8080, tls: false), authority: "api.internal:8080",
                    path: "/v1/"))
        #expect(try URLText.upstream("http://[::1]:80").authority == "[::1]")
        #expect(try URLText.upstream("https://a.example").endpoint == .tcp(host: "a.example", port: 443, tls: true))
        #expect(try URLText.upstream("http://127.0.0.1:9000").path == nil)
        #expect(try URLText.upstream("http://127.0.0.1:9000/").path == "/")
        #expect(
            try URLText.upstream("unix:/run/u.sock")
                == .init(endpoint: .unix(path: "/run/u.sock"), authority: "localhost"))
    }

    @Test(
        "an upstream that two readers could take differently is refused",
        arguments: [
            "http://u:p@h/", "http://h@evil/", "http://h?x", "http://h/#f", "http://h:0", "http://h:99999", "http://",
            "http://h/../x", "http://h/a//b", "http://h\\@evil", "ftp://h", "h:80", "//h", "http://h /", "http://[::1",
            "http://1.2.3",
            "http://0x7f.1", "http://-h", "http://h..x", "unix:run", "http://h/a b", "http://h/%", "http:/h", "",
        ])
    func refusedUpstreams(_ text: String) {
        #expect(throws: ConfigurationValue.ValueError.self) { try URLText.upstream(text) }
    }

    @Test("a misspelt name finds the one that was meant, and a strange one finds none")
    func nearest() {
        let names = ["listeners", "users", "identities", "routes", "upstream", "email_password"]
        #expect(NearestName.of("upstraem", among: names) == "upstream")
        #expect(NearestName.of("usres", among: names) == "users")
        #expect(NearestName.of("listener", among: names) == "listeners")
        #expect(NearestName.of("email", among: names) == "email_password")
        #expect(NearestName.of("xyz", among: names) == nil)
        #expect(NearestName.of("", among: names) == nil)
        #expect(NearestName.of(String(repeating: "users", count: 1000), among: names) == nil)
    }

    @Test(
        "an injected value holds its token once",
        arguments: [
            ("Bearer {token}", "Bearer ", ""), ("{token}", "", ""), ("Token token=\"{token}\"", "Token token=\"", "\""),
            ("Bearer", nil, nil), ("{token}{token}", nil, nil), (" {token}", nil, nil), ("{token}\n", nil, nil),
            ("", nil, nil),
        ] as [(String, String?, String?)])
    func formats(_ format: String, _ prefix: String?, _ suffix: String?) {
        let cut = FieldText.cut(format: format)
        #expect(cut?.prefix == prefix)
        #expect(cut?.suffix == suffix)
    }
}
