/// Reads and throws away what is left of an answer that was replaced by a replay, so that its connection can be used again: 64 KiB and a
/// second at most, else it closes (http-rules.md 17.4).
///
/// Belongs to the shard's queue. The connection holds it as its owner until the end.
final class RejectedBodyReader: Watcher, UpstreamOwner, @unchecked Sendable {
    private static let bytesMax = 64 << 10
    private static let timeMax = Duration.seconds(1)

    private let shard: Shard
    private let pool: UpstreamPool
    private let connection: UpstreamConnection
    private var body: ResponseBody
    private var bytesLeft = RejectedBodyReader.bytesMax
    private let deadline = Deadline()
    private var isOver = false

    /// Begins in the shard's next turn.
    init(_ body: ResponseBody, of connection: UpstreamConnection, in pool: UpstreamPool, shard: Shard) {
        self.body = body
        self.connection = connection
        self.pool = pool
        self.shard = shard
        super.init()
        deadline.owner = self
        connection.owner = self
        shard.loop.set(deadline, at: shard.loop.now + Self.timeMax)
        // What has arrived already brings no event of its own.
        shard.loop.resumeLater(self)
    }

    package override func resume() { read() }
    package override func due(_ deadline: Deadline) { end(keeps: false) }
    package func upstreamReady(_ connection: UpstreamConnection) { read() }

    private func read() {
        while !isOver, connection.canRead {
            switch Socket.receive(connection.raw, into: shard.scratch) {
            case .bytes(let count):
                if count < shard.scratch.count { connection.canRead = connection.hasEnded }
                take(UnsafeMutableRawBufferPointer(rebasing: shard.scratch[0..<count]))
            case .wouldBlock: connection.canRead = false
            case .end, .failed: end(keeps: false)
            }
        }
    }

    private func take(_ input: UnsafeMutableRawBufferPointer) {
        bytesLeft -= input.count
        // A faulty body ends its connection like one that is too long.
        guard bytesLeft >= 0, let used = try? body.take(input).used else { return end(keeps: false) }
        if body.isEnded { end(keeps: used == input.count) }
    }

    private func end(keeps: Bool) {
        guard !isOver else { return }
        isOver = true
        shard.loop.drop(deadline)
        if keeps, !connection.hasEnded { pool.giveBack(connection) } else { pool.discard(connection) }
    }
}
