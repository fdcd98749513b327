import Glibc
import LanyardFoundations
import Testing

@Suite struct SocketAddressTests {
    @Test(
        "numeric addresses keep host and port",
        arguments: [
            ("127.0.0.1", "127.0.0.1"), ("::1", "::1"), ("localhost", "127.0.0.1"), ("fe80::1", "fe80::1"),
            ("0:0::2", "::2"),
        ])
    func numeric(_ host: String, _ read: String) {
        let address = SocketAddress(host: host, port: 7400)
        #expect(address?.host == read)
        #expect(address?.port == 7400)
        #expect(address?.with(port: 1).port == 1)
        #expect(address?.with(port: 1).host == read)
        #expect(address?.with(port: 7400) == address)
        #expect(address?.with(port: 1) != address)
    }

    @Test(
        "names and near misses are no addresses",
        arguments: ["", "a.test", "127.1", "1.2.3.4.5", "256.1.1.1", "[::1]", "::1%lo", "0x7f.1"])
    func names(_ host: String) { #expect(SocketAddress(host: host, port: 1) == nil) }

    @Test(
        "what kind of address it is",
        arguments: [
            ("127.255.0.1", true, false, false), ("128.0.0.1", false, false, false), ("::1", true, false, false),
            ("::2", false, false, false),
            ("::ffff:127.0.0.1", true, false, false), ("169.254.169.254", false, true, false),
            ("169.255.0.1", false, false, false),
            ("fe80::1", false, true, false), ("febf::1", false, true, false), ("fec0::1", false, false, false),
            ("::ffff:169.254.1.1", false, true, false), ("100.100.100.200", false, true, false),
            ("100.100.100.201", false, false, false), ("168.63.129.16", false, true, false),
            ("::ffff:168.63.129.16", false, true, false), ("fd00:ec2::254", false, true, false),
            ("fd20:ce::254", false, true, false), ("fd20:ce::255", false, false, false),
            ("0.0.0.0", false, false, true), ("::", false, false, true),
        ])
    func kinds(_ host: String, _ loopback: Bool, _ isMetadataService: Bool, _ wildcard: Bool) throws {
        let address = try #require(SocketAddress(host: host, port: 1))
        #expect(address.isLoopback == loopback)
        #expect(address.isMetadataService == isMetadataService)
        #expect(address.isWildcard == wildcard)
    }

    @Test("a unix path has 1 to 107 bytes and no NUL")
    func unix() {
        let longest = "/" + String(repeating: "p", count: 106)
        #expect(SocketAddress(path: longest)?.path == longest)
        #expect(SocketAddress(path: longest + "p") == nil)
        #expect(SocketAddress(path: "") == nil)
        #expect(SocketAddress(path: "/a\u{0}b") == nil)
        #expect(SocketAddress(path: "/a")?.isLoopback == true)
        #expect(SocketAddress(path: "/a")?.family == AF_UNIX)
        #expect(SocketAddress(path: "/a")?.isWildcard == false)
        #expect(SocketAddress(path: "/a")?.with(port: 9) == SocketAddress(path: "/a"))
    }
}
