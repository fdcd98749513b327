import COpenSSL
import Glibc
import LanyardFoundations
import TestSupport
import Testing

@testable import LanyardRequestPath

/// What TLS sessions hold, and what is counted of it.
@Suite struct TLSMemoryTests {
    /// Connected ends that share a workspace.
    private struct Pairs {
        let budget = BufferBudget(64 << 20)
        let workspace: TLSWorkspace
        let client: TLSClientContext
        let server: TLSServerContext

        init(buffersMax: Int = 2) throws {
            workspace = TLSWorkspace(buffersMax: buffersMax, budget: budget)
            (client, server) = (try TLSBench.client(), try TLSBench.server())
        }

        func connect() throws -> (client: TLSEnd, server: TLSEnd) {
            let (left, right) = try TLSPair.pair()
            let client = try TLSEnd(left, workspace) { try TLSSession($0, to: self.client, workspace: $1) }
            let server = try TLSEnd(right, workspace) { try TLSSession($0, of: self.server, workspace: $1) }
            for _ in 0..<4 { _ = (client.handshake(), server.handshake()) }
            guard client.session.canCarryData, server.session.canCarryData else { throw TestFailure("no handshake") }
            return (client, server)
        }
    }

    @Test("the buffers of sessions with a part of a record are counted, on either side")
    func partialRecords() throws {
        let pairs = try Pairs()
        var held: [TLSEnd] = []
        for number in 0..<6 {
            let (client, server) = try pairs.connect()
            let (sender, reader) = number % 2 == 0 ? (client, server) : (server, client)
            // The header of a record of 16 KiB.
            let count = Glibc.send(sender.socket.raw, [23, 3, 3, 0x40, 0] as [UInt8], 5, 0)
            #expect(count == 5)
            #expect(reader.receive().0 == .wouldBlock)
            held += [reader, sender]
        }
        // Two sessions keep their buffers without being counted.
        #expect(pairs.workspace.bufferCount == 2)
        #expect(pairs.budget.count == 5 * TLSWorkspace.bufferBytes)
        // Near the limit buffers are freed: of these none can be.
        pairs.workspace.releaseAll()
        #expect(pairs.budget.count == 6 * TLSWorkspace.bufferBytes)
        #expect(held.map(\.session.partialRecordBytes).reduce(0, +) == pairs.budget.count)
        // A session that reads again is one of those that keep theirs.
        #expect(held[0].receive().0 == .wouldBlock)
        #expect(pairs.budget.count == 5 * TLSWorkspace.bufferBytes)
        held = []
        #expect(pairs.budget.count == 0 && pairs.workspace.bufferCount == 0)
    }

    @Test("whole records leave nothing that counts")
    func wholeRecords() throws {
        let pairs = try Pairs()
        var held: [(TLSEnd, TLSEnd)] = []
        for _ in 0..<6 {
            let (client, server) = try pairs.connect()
            #expect(client.send([1, 2, 3]) == 0)
            #expect(server.receive().1 == [1, 2, 3])
            held.append((client, server))
        }
        #expect(pairs.budget.count == 0)
        held = []
    }

    @Test("when half of the sessions have ended the allocator's memory may be returned, and not before")
    func endedSessions() throws {
        let pairs = try Pairs()
        let returns = Counter()
        pairs.budget.whenUncountedFreed { returns.add() }
        var held = try (0..<64).map { _ in try pairs.connect() }
        // Sessions that come and go are no reason.
        for _ in 0..<100 { _ = try pairs.connect() }
        #expect(returns.value == 0)
        held.removeLast(31)
        #expect(returns.value == 0)
        held.removeLast(2)
        #expect(returns.value == 1)
        held = []
        // At 66, at 33: the last 32 sessions are few.
        #expect(returns.value == 2)
    }

    @Test("a connection keeps no certificate of its peer but the peer's own", arguments: TLSBench.versions)
    func peerChains(_ version: CInt) throws {
        let (clients, upstream) = (TLSResumptionTests.Chain(purpose: "clientAuth"), TLSResumptionTests.Chain())
        let padding = (0..<20).map { TestAuthority("Padding \($0)").pem }.joined()
        let shown = TestAuthority.Issued(
            certificate: clients.leaf.certificate + padding, key: clients.leaf.key)
        let served = TestAuthority.Issued(
            certificate: upstream.leaf.certificate + padding, key: upstream.leaf.key)
        let server = try TLSBench.server(served, demanding: clients.root.pem)
        let client = try TLSBench.client(trusting: upstream.root.pem, showing: shown, version: version)
        for isResumed in [false, true] {
            let pair = try TLSResumptionTests.connect(client, server)
            #expect(pair.server.session.isResumed == isResumed)
            for end in [pair.client, pair.server] {
                #expect(OPENSSL_sk_num(SSL_get_peer_cert_chain(end.session.ssl)) <= 1)
                #expect(OPENSSL_sk_num(SSL_get0_verified_chain(end.session.ssl)) <= 0)
            }
        }
    }

    @Test("an upstream's chain is limited as a client's is, and so is the list of authorities that it names")
    func longUpstreamMessages() throws {
        let padding = (0..<120).map { TestAuthority("Padding \($0)").pem }.joined()
        let issued = TLSBench.authority.issue()
        let long = TestAuthority.Issued(certificate: issued.certificate + padding, key: issued.key)
        let pair = try TLSPair(TLSBench.client(), TLSBench.server(long))
        guard case .failed = pair.shake().client else {
            Issue.record("a chain of 40 KiB was accepted")
            return
        }
        let names = (0..<513).map { TestAuthority("A\($0)").pem }.joined()
        let demanding = try TLSPair(TLSBench.client(), TLSBench.server(demanding: names))
        guard case .failed = demanding.shake().client else {
            Issue.record("513 names of authorities were accepted")
            return
        }
    }
}
