import Testing

@testable import LanyardRequestPath

@Suite struct ConnectionStateTests {
    /// Readers of heads, 200 and 160 bytes, are with the bytes that they read, and readers of chunks and of JSON-RPC are packed.
    @Test("what an idle client's connection keeps for its next request is small")
    func idleSize() {
        #expect(MemoryLayout<RequestInput>.size <= 408)
        #expect(MemoryLayout<ResponseRelay>.size <= 208)
        #expect(MemoryLayout<ExchangeWaits>.size <= 96)
        #expect(MemoryLayout<ConnectionWaits>.size <= 32)
    }

    /// An exchange, a tunnel and their clients are in `RequestPathReloadTests`.
    @Test("a client that is not admitted any more ends at once, or behind what is queued for it")
    func admissionEnds() {
        let rows: [(state: ConnectionState, isSecured: Bool, isFlushed: Bool, end: ConnectionState.AdmissionEnd)] = [
            (.handshake, false, true, .none), (.handshake, true, true, .atOnce), (.handshake, true, false, .atOnce),
            (.waiting, true, true, .atOnce), (.waiting, true, false, .behindQueue), (.head, true, true, .atOnce),
            (.exchange, true, true, .byExchange), (.flushing, true, false, .behindQueue),
            (.flushing, true, true, .behindQueue), (.lingering, true, true, .none), (.closed, true, true, .none),
        ]
        for row in rows {
            #expect(row.state.admissionEnd(isSecured: row.isSecured, isFlushed: row.isFlushed) == row.end, "\(row)")
        }
    }
}
