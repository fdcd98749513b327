import LanyardFoundations

/// The frames that one connection sends: those of a turn leave in one send. Belongs to the connection's queue, which that checks.
struct FrameOutput: ~Copyable {
    private var buffer: TurnBuffer?
    private let memory: FrameMemory
    /// The codec has failed.
    private(set) var isBroken = false

    /// - Parameter memory: of the shard.
    init(_ memory: FrameMemory) { self.memory = memory }

    /// The turn has room for more.
    var hasRoom: Bool { (buffer?.count ?? 0) < TurnBuffer.capacity }
    /// Frames wait for the end of the turn.
    var isEmpty: Bool { buffer == nil }

    /// Makes frames of what was submitted. While the socket takes none the codec keeps it.
    mutating func produce(from session: HTTP2Session, to stream: inout ByteStream) {
        while stream.isFlushed, !isBroken {
            let buffer = buffer ?? memory.acquireTurnBuffer()
            self.buffer = buffer
            guard let count = session.produce(into: buffer.room) else { return isBroken = true }
            buffer.record(count)
            guard buffer.room.count < HTTP2Session.frameBytesMax else { return }
            guard send(to: &stream) else { return }
        }
    }

    /// Sends the turn's frames. False: the peer is gone.
    mutating func send(to stream: inout ByteStream) -> Bool {
        guard let buffer else { return true }
        let code = stream.send(buffer.bytes)
        buffer.clear()
        return code == 0
    }

    /// The turn has ended, or the connection.
    mutating func release() {
        guard let buffer else { return }
        self.buffer = nil
        memory.release(buffer)
    }
}
