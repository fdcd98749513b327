/// The exchanges of closed connections, for the next ones: with its parts an exchange is three allocations, which a client that makes a
/// connection for each request would cause each time.
///
/// They keep no memory of a client, and none of a replaced configuration. Streams of HTTP/2 are kept with theirs. Belongs to the shard's
/// clients, which check the queue.
struct SpareExchanges: ~Copyable {
    /// A few of a turn's: more would only cost memory.
    static let countMax = 32

    private var list: [ClientExchange] = []
    /// More than of a turn: a connection has a hundred at once.
    private static let streamsMax = 256
    private var streams: [ClientStream] = []

    init() { list.reserveCapacity(Self.countMax) }

    /// Keeps the exchange of a connection that has closed. The connection, or what waits in this turn, may still refer to it.
    mutating func keep(_ exchange: ClientExchange) {
        if list.count < Self.countMax { list.append(exchange) }
    }

    /// An exchange that nothing refers to any more; nil: there is none.
    mutating func take() -> ClientExchange? {
        guard var spare = list.popLast(), isKnownUniquelyReferenced(&spare) else { return nil }
        return spare
    }

    /// The configuration that they were served by is replaced.
    mutating func drop() {
        list.removeAll(keepingCapacity: true)
        streams.removeAll(keepingCapacity: true)
    }

    mutating func keep(_ stream: ClientStream) {
        if streams.count < Self.streamsMax { streams.append(stream) }
    }

    mutating func takeStream() -> ClientStream? {
        guard let spare = streams.popLast(), spare.isUnused else { return nil }
        return spare
    }
}
