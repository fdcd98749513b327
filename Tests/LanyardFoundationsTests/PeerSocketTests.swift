import Glibc
import LanyardFoundations
import TestSupport
import Testing

@Suite struct PeerSocketTests {
    @Test("the other end belongs to no process once it is closed, not while it is open or has ended its direction")
    func orphaned() throws {
        for endpoint in [RawEndpoint.tcp(0), .loopbackV6(0)] {
            let listener = try RawSocket.listen(at: endpoint)
            let isV6 = endpoint == .loopbackV6(0)
            let client = try RawSocket.connect(to: isV6 ? .loopbackV6(listener.localPort) : .tcp(listener.localPort))
            let accepted = try #require(listener.accept())
            func isOrphaned() -> Bool? { accepted.use { Socket.isPeerOrphaned($0) } }
            #expect(isOrphaned() == false)
            client.halfClose()
            #expect(try accepted.receive().isEmpty)
            #expect(isOrphaned() == false)
            client.close()
            // A process that another test starts has it until its exec.
            try blockUntil("no process has it") { isOrphaned() == true }
            accepted.close()
            listener.close()
        }
    }

    @Test("of a unix socket nothing is known")
    func unix() throws {
        let folder = try TemporaryFolder()
        let listener = try RawSocket.listen(at: .unix(folder.file("s")))
        let client = try RawSocket.connect(to: .unix(folder.file("s")))
        let accepted = try #require(listener.accept())
        client.close()
        #expect(accepted.use { Socket.isPeerOrphaned($0) } == false)
    }
}

@Suite struct LoopbackNameMatchingTests {
    @Test(
        "localhost and the names below it, in any case, with or without the root's dot",
        arguments: [
            ("localhost", true), ("LocalHost", true), ("localhost.", true), ("a.localhost", true),
            ("A.B.LOCALHOST.", true),
            ("xlocalhost", false), ("localhost.test", false), ("localhos", false), ("", false), (".", false),
            ("localhost..", false), ("l\u{0}calhost", false), ("127.0.0.1", false), ("local\u{f}ost", false),
        ])
    func names(_ name: String, _ isOne: Bool) {
        #expect(LoopbackName.matches(name) == isOne)
        let hosts = SocketAddress.known(host: name, port: 80).map(\.host)
        #expect(hosts == (isOne ? ["127.0.0.1", "::1"] : name == "127.0.0.1" ? [name] : []))
    }
}
