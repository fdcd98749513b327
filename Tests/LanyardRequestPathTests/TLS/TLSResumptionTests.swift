import COpenSSL
import LanyardFoundations
import TestSupport
import Testing

@testable import LanyardRequestPath

/// A resumed session is not verified again. So it lives no longer than what its full handshake has verified.
@Suite struct TLSResumptionTests {
    /// A chain of three, of which the certificate in the middle ends first and begins last.
    struct Chain {
        let root = TestAuthority("Root")
        let intermediate: TestAuthority
        let leaf: TestAuthority.Issued

        init(purpose: String = "") {
            intermediate = TestAuthority("Intermediate", under: root, from: -1800, to: 43_200)
            let issued = intermediate.issue(purpose: purpose)
            leaf = .init(certificate: issued.certificate + intermediate.pem, key: issued.key)
        }

        /// The first and the last second of the intermediate certificate, and the one behind it.
        func times() throws -> (first: WallTime, last: WallTime, over: WallTime) {
            let certificates = try TLSBench.bytes(intermediate.pem) { try TLSCertificates.read($0) }
            let end = certificates.expiresAt
            return (certificates.validFrom, WallTime(nanoseconds: end.nanoseconds - 1), end)
        }
    }

    /// Connects, and has a ticket arrive.
    @discardableResult
    static func connect(_ client: TLSClientContext, _ server: TLSServerContext) throws -> TLSPair {
        let pair = try TLSPair(client, server)
        try pair.establish()
        _ = try pair.transfer([1], from: pair.server, to: pair.client)
        return pair
    }

    @Test(
        "a session whose ticket is large is not kept, and its connection is not worth keeping idle",
        arguments: TLSBench.versions)
    func large(_ version: CInt) throws {
        for (names, isLarge) in [(1, false), (600, true)] {
            // A listener's ticket has the client's certificate in it.
            let list = (0..<names).map { "DNS:name-\($0).example.com" }.joined(separator: ",")
            let server = try TLSBench.server(demanding: TLSBench.authority.pem)
            let client = try TLSBench.client(
                showing: TLSBench.authority.issue(list, purpose: "clientAuth"), version: version)
            let first = try Self.connect(client, server)
            #expect(first.client.session.hasLargeSession == isLarge)
            // It holds the client's certificate for as long.
            #expect(first.server.session.hasLargeSession == isLarge)
            #expect(try Self.connect(client, server).client.session.isResumed == !isLarge)
        }
    }

    @Test("a listener resumes no session of whose chain a certificate has ended", arguments: TLSBench.versions)
    func endedIntermediateOfClient(_ version: CInt) throws {
        let chain = Chain(purpose: "clientAuth")
        let (_, last, over) = try chain.times()
        let time = Guarded(last)
        let server = try TLSBench.server(demanding: chain.root.pem, wallClock: { time.withLock { $0 } })
        let client = try TLSBench.client(showing: chain.leaf, version: version)
        for isResumed in [false, true, true] {
            #expect(try Self.connect(client, server).server.session.isResumed == isResumed)
        }
        time.withLock { $0 = over }
        let late = try TLSPair(client, server)
        #expect(late.shake().server == .failed(.expired))
        #expect(!late.server.session.isResumed)
    }

    @Test("no session to an upstream is resumed of whose chain a certificate has ended", arguments: TLSBench.versions)
    func endedIntermediateOfUpstream(_ version: CInt) throws {
        let chain = Chain()
        let (_, last, over) = try chain.times()
        let time = Guarded(last)
        let server = try TLSBench.server(chain.leaf)
        let client = try TLSBench.client(
            trusting: chain.root.pem, version: version, wallClock: { time.withLock { $0 } })
        for isResumed in [false, true, true] {
            #expect(try Self.connect(client, server).client.session.isResumed == isResumed)
        }
        // It offers a session before the end.
        let offering = try TLSPair(client, server)
        if version == TLS1_3_VERSION { try Self.connect(client, server) }
        time.withLock { $0 = over }
        #expect(offering.shake().client == .failed(.expired))
        #expect(offering.client.session.isResumed)
        let late = try TLSPair(client, server)
        #expect(late.shake().client == .failed(.expired))
        #expect(!late.client.session.isResumed)
    }

    @Test("a clock that is set back before the chain's beginning ends sessions, too", arguments: TLSBench.versions)
    func notYetValid(_ version: CInt) throws {
        let (clients, upstream) = (Chain(purpose: "clientAuth"), Chain())
        let time = Guarded(try clients.times().last)
        let clock: @Sendable () -> WallTime = { time.withLock { $0 } }
        let server = try TLSBench.server(upstream.leaf, demanding: clients.root.pem, wallClock: clock)
        let trusting = try TLSBench.client(trusting: upstream.root.pem, showing: clients.leaf, version: version)
        let checking = try TLSBench.client(
            trusting: upstream.root.pem, showing: clients.leaf, version: version, wallClock: clock)
        for client in [trusting, checking] { try Self.connect(client, server) }
        let first = min(try clients.times().first, try upstream.times().first)
        time.withLock { $0 = WallTime(seconds: first.seconds - 1) }
        let pair = try TLSPair(trusting, server)
        #expect(pair.shake().server == .failed(.notYetValid))
        #expect(!pair.server.session.isResumed)
        #expect(try TLSPair(checking, server).shake().client == .failed(.notYetValid))
    }

    @Test(
        "a listener resumes sessions for one hour from the full handshake, with and without certificates of clients",
        arguments: TLSBench.versions, [false, true])
    func hourOfListener(_ version: CInt, demandsCertificates: Bool) throws {
        let time = Guarded(Instant.now)
        let issued = TLSBench.authority.issue(purpose: "clientAuth")
        let server = try TLSBench.server(
            demanding: demandsCertificates ? TLSBench.authority.pem : nil, clock: { time.withLock { $0 } })
        // The client's own hour does not end.
        let now = Instant.now
        let client = try TLSBench.client(showing: issued, version: version, clock: { now })
        var resumed: [Bool] = []
        for _ in 0..<6 {
            resumed.append(try Self.connect(client, server).server.session.isResumed)
            time.withLock { $0 = $0 + .seconds(25 * 60) }
        }
        #expect(resumed == [false, true, true, false, true, true])
    }

    @Test("a session is not resumed when its authority is no longer trusted", arguments: TLSBench.versions)
    func removedAuthority(_ version: CInt) throws {
        let (kept, removed) = (TestAuthority("Kept"), TestAuthority("Removed"))
        let tickets = TLSTicketKeys()
        let client = try TLSBench.client(showing: removed.issue(purpose: "clientAuth"), version: version)
        let former = try TLSBench.server(demanding: kept.pem + removed.pem, tickets: tickets)
        for isResumed in [false, true] {
            #expect(try Self.connect(client, former).server.session.isResumed == isResumed)
        }
        let pair = try TLSPair(client, TLSBench.server(demanding: kept.pem, tickets: tickets))
        #expect(pair.shake().server == .failed(.unknownAuthority))
        #expect(!pair.server.session.isResumed)
    }

    @Test("a listener keeps no session itself: without a ticket none is resumed")
    func withoutTickets() throws {
        let (client, server) = (try TLSBench.client(version: TLS1_2_VERSION), try TLSBench.server())
        // SSL_OP_NO_TICKET. With TLS 1.3 there is no resumption without a ticket.
        SSL_CTX_set_options(client.raw, 1 << 14)
        for _ in 0..<2 { #expect(try !Self.connect(client, server).server.session.isResumed) }
    }

    @Test("a chain without an end is valid", arguments: TLSBench.versions)
    func endless(_ version: CInt) throws {
        // In the year 9000 or so.
        let issued = TLSBench.authority.issue(purpose: "clientAuth", to: 7_000 * 365 * 86_400)
        let server = try TLSBench.server(demanding: TLSBench.authority.pem)
        let client = try TLSBench.client(showing: issued, version: version)
        for isResumed in [false, true] {
            #expect(try Self.connect(client, server).server.session.isResumed == isResumed)
        }
        #expect(try TLSBench.keyPair(issued).chain.expiresAt > .now)
    }
}
