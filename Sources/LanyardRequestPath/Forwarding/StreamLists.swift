/// The streams of one connection of HTTP/2 to an upstream. Belongs to the connection, which checks the queue.
struct StreamLists {
    /// That the codec has open.
    private(set) var open: [UpstreamStream] = []
    /// Their bodies wait for a window, or for the socket.
    var stalled: [UpstreamStream] = []
    /// Their heads are in the frames of this turn.
    var fresh: [UpstreamStream] = []
    /// Their heads wait for the first bytes of their bodies, until all of a read was looked at.
    var heads: [UpstreamStream] = []
    /// Closed, and not used any more.
    var released: [UpstreamStream] = []

    /// The head of the stream is submitted.
    mutating func add(_ stream: UpstreamStream) {
        open.add(stream)
        fresh.append(stream)
    }

    /// The codec has closed the stream.
    mutating func remove(_ stream: UpstreamStream) {
        open.take(stream)
        if stream.isStalled { stalled.removeAll { $0 === stream } }
        if !fresh.isEmpty { fresh.removeAll { $0 === stream } }
    }
}
