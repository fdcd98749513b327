import LanyardFoundations

/// Discards the rest of a response that a replay replaces, so that its connection can be reused. Limits: 64 KiB and 1
/// s; beyond them the connection is closed (http-forwarding.md 17.4).
///
/// Belongs to the shard's queue. The connection holds it as its owner until the end.
final class RejectedBodyReader: Watcher, UpstreamOwner, @unchecked Sendable {
    private static let bytesMax = 64 << 10
    private static let timeout = Duration.seconds(1)

    private let loop: EventLoop
    private let memory: ShardMemory
    private let connection: UpstreamConnection
    /// nil: it has ended.
    private var lease: UpstreamLease?
    private var body: ResponseBody
    private var bytesLeft = RejectedBodyReader.bytesMax
    private let deadline = Deadline()

    /// Begins in the shard's next turn.
    init(_ body: ResponseBody, of lease: consuming UpstreamLease, _ memory: ShardMemory, on loop: EventLoop) {
        self.body = body
        connection = lease.connection
        self.lease = consume lease
        self.memory = memory
        self.loop = loop
        super.init()
        deadline.owner = self
        self.lease?.begin(by: self)
        loop.set(deadline, at: loop.now + Self.timeout)
        // Bytes that have already arrived cause no event.
        loop.resumeLater(self)
    }

    package override func resume() {
        loop.assertIsCurrent()
        read()
    }
    package override func due(_ deadline: Deadline) {
        loop.assertIsCurrent()
        end(keeps: false)
    }
    package func handleUpstreamReadiness(_ connection: UpstreamConnection) {
        loop.assertIsCurrent()
        read()
    }

    private func read() {
        while lease != nil, connection.stream.canRead {
            switch connection.stream.receive(into: memory.scratch) {
            case .bytes(let count):
                consume(UnsafeMutableRawBufferPointer(rebasing: memory.scratch[0..<count]))
            case .wouldBlock: break
            case .end, .failed: end(keeps: false)
            }
        }
    }

    private func consume(_ input: UnsafeMutableRawBufferPointer) {
        bytesLeft -= input.count
        // A malformed body closes the connection, as one that is too long does.
        guard bytesLeft >= 0, let used = try? body.consume(input).used else { return end(keeps: false) }
        if body.isEnded { end(keeps: used == input.count) }
    }

    private func end(keeps: Bool) {
        guard let lease = lease.take() else { return }
        loop.drop(deadline)
        if keeps, !connection.stream.hasEnded { lease.giveBack() }
    }
}
