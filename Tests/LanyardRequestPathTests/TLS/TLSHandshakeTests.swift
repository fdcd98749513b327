import COpenSSL
import LanyardFoundations
import TestSupport
import Testing

@testable import LanyardRequestPath

@Suite struct TLSHandshakeTests {
    @Test("both ends agree on a version, and carry data both ways", arguments: TLSBench.versions)
    func agree(_ version: CInt) throws {
        let pair = try TLSPair(TLSBench.client(version: version), TLSBench.server(), overTCP: true)
        #expect(!pair.client.session.canCarryData)
        try pair.establish()
        #expect(pair.client.session.canCarryData && pair.server.session.canCarryData)
        #expect(pair.client.session.version == (version == TLS1_2_VERSION ? "TLSv1.2" : "TLSv1.3"))
        #expect(try pair.transfer(Array("hello".utf8), from: pair.client, to: pair.server) == Array("hello".utf8))
        #expect(try pair.transfer(pattern(100_000), from: pair.server, to: pair.client) == pattern(100_000))
    }

    @Test("a listener's ticket goes out with its first data")
    func ticket() throws {
        var isHeld = false
        // The kernel holds it for 200 ms. A pause of the machine may be longer.
        for _ in 0..<20 where !isHeld {
            let pair = try TLSPair(TLSBench.client(), TLSBench.server(), overTCP: true)
            try pair.establish()
            isHeld = pair.client.socket.available == 0
            let text = Array("response".utf8)
            #expect(pair.server.send(text) == 0)
            // A record with the text alone has 22 bytes more.
            #expect(pair.client.socket.available > text.count + 22)
            #expect(try pair.collect(text.count, from: pair.server, to: pair.client) == text)
        }
        #expect(isHeld)
    }

    @Test("a handshake and records in pieces of a few bytes are the same", arguments: TLSBench.versions, [1, 2, 5, 7])
    func torn(_ version: CInt, step: Int) throws {
        let pair = try TLSPair(TLSBench.client(version: version), TLSBench.server(), relayed: true)
        pair.step = step
        try pair.establish()
        #expect(try pair.transfer(pattern(300), from: pair.client, to: pair.server) == pattern(300))
        #expect(try pair.transfer(pattern(300), from: pair.server, to: pair.client) == pattern(300))
    }

    @Test("a later connection resumes the session of an earlier one", arguments: TLSBench.versions)
    func resumes(_ version: CInt) throws {
        let (client, server) = (try TLSBench.client(version: version), try TLSBench.server())
        for round in 0..<3 {
            let pair = try TLSPair(client, server)
            try pair.establish()
            #expect(pair.client.session.isResumed == (round > 0), "round \(round)")
            #expect(pair.server.session.isResumed == (round > 0))
            _ = try pair.transfer([1], from: pair.server, to: pair.client)
        }
        #expect(client.sessions.count > 0)
    }

    @Test("a session of TLS 1.3 is used once")
    func singleUse() throws {
        let (client, server) = (try TLSBench.client(version: TLS1_3_VERSION), try TLSBench.server())
        let first = try TLSPair(client, server)
        try first.establish()
        #expect(!first.client.hasPendingInput())
        #expect(client.sessions.count == 1)
        let (second, third) = (try TLSPair(client, server), try TLSPair(client, server))
        try second.establish()
        try third.establish()
        #expect(second.client.session.isResumed && !third.client.session.isResumed)
    }

    @Test("sessions are bounded, and an old one is not used")
    func sessionLimits() throws {
        let time = Guarded(Instant.now)
        let client = try TLSBench.client(clock: { time.withLock { $0 } })
        let server = try TLSBench.server()
        for pair in try (0..<40).map({ _ in try TLSPair(client, server) }) {
            try pair.establish()
            #expect(!pair.client.hasPendingInput())
        }
        #expect(client.sessions.count == TLSSessionCache.sessionsMax)
        time.withLock { $0 = $0 + .seconds(3601) }
        #expect(client.sessions.newestUsable() == nil)
        #expect(client.sessions.count == 0)
    }

    @Test(
        "a chain of resumed connections ends one hour after the handshake that verified the upstream",
        arguments: TLSBench.versions)
    func chainOfResumptions(_ version: CInt) throws {
        let time = Guarded(Instant.now)
        let client = try TLSBench.client(version: version, clock: { time.withLock { $0 } })
        let server = try TLSBench.server()
        var resumed: [Bool] = []
        for _ in 0..<6 {
            let pair = try TLSPair(client, server)
            try pair.establish()
            // With TLS 1.3 each connection brings a new session.
            _ = try pair.transfer([1], from: pair.server, to: pair.client)
            resumed.append(pair.client.session.isResumed)
            time.withLock { $0 = $0 + .seconds(25 * 60) }
        }
        #expect(resumed == [false, true, true, false, true, true])
    }

    /// A certificate's last second, and the one behind it.
    private static func end(of issued: TestAuthority.Issued) throws -> (last: WallTime, over: WallTime) {
        let end = try TLSBench.bytes(issued.certificate) { try TLSCertificates.read($0) }.expiresAt
        return (WallTime(nanoseconds: end.nanoseconds - 1), end)
    }

    @Test("a session is not resumed when the upstream's certificate has ended", arguments: TLSBench.versions)
    func endedUpstreamCertificate(_ version: CInt) throws {
        let tickets = TLSTicketKeys()
        let issued = TLSBench.authority.issue(to: 43_200)
        let (last, over) = try Self.end(of: issued)
        let time = Guarded(last)
        let clock: @Sendable () -> WallTime = { time.withLock { $0 } }
        let server = try TLSBench.server(issued, tickets: tickets)
        let client = try TLSBench.client(version: version, wallClock: clock)
        let skipping = try TLSBench.client(skipsVerification: true, version: version, wallClock: clock)
        for context in [client, skipping] {
            for pair in try (0..<4).map({ _ in try TLSPair(context, server) }) {
                try pair.establish()
                _ = try pair.transfer([1], from: pair.server, to: pair.client)
            }
            #expect(context.sessions.count == 4)
        }
        let resumed = try TLSPair(client, server)
        try resumed.establish()
        #expect(resumed.client.session.isResumed)
        // It offers a session before the end.
        let late = try TLSPair(client, server)
        time.withLock { $0 = over }
        #expect(late.shake().client == .failed(.expired))
        #expect(late.client.session.isResumed)
        // The upstream has a new certificate by now.
        let renewed = try TLSPair(client, TLSBench.server(tickets: tickets))
        try renewed.establish()
        #expect(!renewed.client.session.isResumed)
        let unverified = try TLSPair(skipping, server)
        try unverified.establish()
        #expect(unverified.client.session.isResumed)
    }

    @Test("a listener does not resume a session whose client certificate has ended", arguments: TLSBench.versions)
    func endedClientCertificate(_ version: CInt) throws {
        let issued = TLSBench.authority.issue(purpose: "clientAuth", to: 43_200)
        let (last, over) = try Self.end(of: issued)
        let time = Guarded(last)
        let server = try TLSBench.server(
            demanding: TLSBench.authority.pem, wallClock: { time.withLock { $0 } })
        let client = try TLSBench.client(showing: issued, version: version)
        for isResumed in [false, true] {
            let pair = try TLSPair(client, server)
            try pair.establish()
            #expect(pair.server.session.isResumed == isResumed)
            _ = try pair.transfer([1], from: pair.server, to: pair.client)
        }
        time.withLock { $0 = over }
        let pair = try TLSPair(client, server)
        #expect(pair.shake().server == .failed(.expired))
        #expect(!pair.server.session.isResumed)
    }

    @Test("a session is not resumed under other authorities of clients, or other names", arguments: TLSBench.versions)
    func sessionsOfOtherClients(_ version: CInt) throws {
        let (own, tickets) = (TLSBench.authority.pem, TLSTicketKeys())
        let issued = TLSBench.authority.issue("DNS:orders", purpose: "clientAuth")
        let both = own + TestAuthority("Another authority of clients").pem
        for (pem, names, isResumed) in [(own, ["orders"], true), (both, ["orders"], false), (own, ["other"], false)] {
            let client = try TLSBench.client(showing: issued, version: version)
            let first = try TLSPair(client, TLSBench.server(demanding: own, names: ["orders"], tickets: tickets))
            try first.establish()
            _ = try first.transfer([1], from: first.server, to: first.client)
            let second = try TLSPair(client, TLSBench.server(demanding: pem, names: names, tickets: tickets))
            try second.establish()
            #expect(second.server.session.isResumed == isResumed)
        }
    }

    @Test("an idle session that lost its buffers and reads is one of those that have buffers")
    func buffersOfIdleSessions() throws {
        let pair = try TLSPair(TLSBench.client(), TLSBench.server())
        try pair.establish()
        #expect(!pair.client.hasPendingInput())
        pair.workspace.releaseAll()
        #expect(pair.workspace.bufferCount == 0)
        #expect(!pair.client.hasPendingInput())
        #expect(pair.workspace.bufferCount == 1)
    }

    @Test("session tickets on an idle connection are not data")
    func idleTickets() throws {
        let pair = try TLSPair(TLSBench.client(version: TLS1_3_VERSION), TLSBench.server())
        try pair.establish()
        #expect(!pair.client.hasPendingInput())
        #expect(!pair.client.hasPendingInput())
        #expect(pair.server.send([1]) == 0)
        #expect(pair.client.hasPendingInput())
        #expect(pair.client.receive().1 == [1])
        #expect(!pair.client.hasPendingInput())
        #expect(pair.server.closeNotify() == 0)
        #expect(pair.client.hasPendingInput())
    }

    @Test("a certificate's names are matched as names: wildcards for one whole label, addresses as addresses")
    func names() throws {
        let cases: [(names: String, host: String, isRight: Bool)] = [
            ("DNS:localhost", "localhost", true), ("DNS:localhost", "LOCALHOST.", true),
            ("DNS:other", "localhost", false), ("DNS:*.example.com", "api.example.com", true),
            ("DNS:*.example.com", "a.b.example.com", false), ("DNS:*.example.com", "example.com", false),
            ("DNS:a*.example.com", "api.example.com", false), ("DNS:api.*.com", "api.example.com", false),
            ("DNS:*", "localhost", false), ("IP:127.0.0.1", "127.0.0.1", true), ("IP:::1", "::1", true),
            ("IP:127.0.0.2", "127.0.0.1", false), ("DNS:127.0.0.1", "127.0.0.1", false), ("", "127.0.0.1", false),
            ("", "localhost", false),
            // localhost NUL .evil
            ("DER:30:11:82:0f:6c:6f:63:61:6c:68:6f:73:74:00:2e:65:76:69:6c", "localhost", false),
        ]
        for (names, host, isRight) in cases {
            // The common name never counts.
            let issued = TLSBench.authority.issue(names, commonName: host)
            let result = try TLSPair(TLSBench.client(host), TLSBench.server(issued)).shake()
            let expected: TLSSession.Progress = isRight ? .done : .failed(.nameMismatch)
            #expect(result.client == expected, "\(names) for \(host)")
            let skipping = try TLSPair(TLSBench.client(host, skipsVerification: true), TLSBench.server(issued)).shake()
            #expect(skipping.client == .done, "\(names) for \(host)")
        }
    }

    @Test("the name goes as SNI, an address does not")
    func serverNameIndication() throws {
        for (host, sent) in [("localhost", "localhost"), ("127.0.0.1", nil)] as [(String, String?)] {
            let issued = TLSBench.authority.issue("DNS:localhost,IP:127.0.0.1")
            let pair = try TLSPair(TLSBench.client(host), TLSBench.server(issued))
            try pair.establish()
            let name = SSL_get_servername(pair.server.session.ssl, TLSEXT_NAMETYPE_host_name)
            #expect(name.map { String(cString: $0) } == sent)
        }
    }

    @Test("a chain goes up through an intermediate authority, and an intermediate one may be trusted alone")
    func chain() throws {
        let middle = TestAuthority("Middle", under: TLSBench.authority)
        let issued = middle.issue()
        let whole = TestAuthority.Issued(certificate: issued.certificate + middle.pem, key: issued.key)
        for (issued, pem, isTrusted) in [
            (whole, TLSBench.authority.pem, true), (issued, TLSBench.authority.pem, false), (issued, middle.pem, true),
        ] {
            let result = try TLSPair(TLSBench.client(trusting: pem), TLSBench.server(issued)).shake()
            let expected: TLSSession.Progress = isTrusted ? .done : .failed(.unknownAuthority)
            #expect(result.client == expected)
        }
    }

    @Test(
        "a listener that demands certificates takes the clients whose names are allowed", arguments: TLSBench.versions)
    func clientNames(_ version: CInt) throws {
        let names = "DNS:Orders.internal,URI:spiffe://x/orders,email:a@example.com,IP:10.0.0.5"
        let issued = TLSBench.authority.issue(names, purpose: "clientAuth")
        let cases: [([String], Bool)] = [
            ([], true), (["orders.internal"], true), (["DNS:orders.internal"], true), (["URI:orders.internal"], false),
            (["spiffe://x/orders"], true), (["URI:spiffe://x/orders"], true), (["spiffe://x/order"], false),
            (["email:a@example.com"], true), (["IP:10.0.0.5"], true), (["10.0.0.5"], true), (["10.0.0.6"], false),
            (["leaf"], false), (["other", "a@example.com"], true),
        ]
        for (allowed, isAllowed) in cases {
            let server = try TLSBench.server(demanding: TLSBench.authority.pem, names: allowed)
            let client = try TLSBench.client(showing: issued, version: version)
            let pair = try TLSPair(client, server)
            // The handshake succeeds for all of them, so that a request can be refused with a reason.
            #expect(pair.shake().server == .done)
            #expect(pair.server.session.isClientAllowed == isAllowed, "\(allowed)")
            _ = try pair.transfer([1], from: pair.server, to: pair.client)
            let again = try TLSPair(client, server)
            try again.establish()
            #expect(again.server.session.isResumed)
            #expect(again.server.session.isClientAllowed == isAllowed)
            // Under other names the session is another one.
            let other = try TLSBench.server(demanding: TLSBench.authority.pem, names: ["other"])
            let third = try TLSPair(client, other)
            #expect(third.shake().server == .done)
            #expect(!third.server.session.isResumed)
            #expect(!third.server.session.isClientAllowed)
        }
        // orders NUL .evil
        let cut = TLSBench.authority.issue("DER:30:0e:82:0c:6f:72:64:65:72:73:00:2e:65:76:69:6c", purpose: "clientAuth")
        let pair = try TLSPair(
            TLSBench.client(showing: cut, version: version),
            TLSBench.server(demanding: TLSBench.authority.pem, names: ["orders"]))
        #expect(pair.shake().server == .done && !pair.server.session.isClientAllowed)
        #expect(TLSClientNames([""]) == nil && TLSClientNames(["IP:x"]) == nil && TLSClientNames(["DNS:"]) == nil)
    }

    @Test("ticket keys rotate: the previous ones are accepted, older ones are not", arguments: TLSBench.versions)
    func ticketKeys(_ version: CInt) throws {
        let time = Guarded(Instant.now)
        let tickets = TLSTicketKeys(rotationInterval: .seconds(100)) { time.withLock { $0 } }
        let server = try TLSBench.server(tickets: tickets)
        func connect(_ client: TLSClientContext) throws -> Bool {
            let pair = try TLSPair(client, server)
            try pair.establish()
            _ = try pair.transfer([1], from: pair.server, to: pair.client)
            return pair.server.session.isResumed
        }
        let client = try TLSBench.client(version: version)
        #expect(try !connect(client))
        time.withLock { $0 = $0 + .seconds(150) }
        #expect(try connect(client))
        time.withLock { $0 = $0 + .seconds(150) }
        // OpenSSL's client does not take the new ticket that a resumed session of TLS 1.2 brings.
        #expect(try connect(client) == (version == TLS1_3_VERSION))
        time.withLock { $0 = $0 + .seconds(350) }
        #expect(try !connect(client))
        // Another context of the same listener takes the tickets: a reload of the certificate costs no full handshakes.
        let reloaded = try TLSPair(client, TLSBench.server(tickets: tickets))
        try reloaded.establish()
        #expect(reloaded.server.session.isResumed)
    }
}
