/// The clients of one shard whose reading waits for memory (http-rules.md 8). Belongs to the shard's queue.
///
/// It looks every 10 ms while somebody waits: who gives memory back may be any shard, and is not to be burdened with telling.
final class PausedReaders: Watcher, @unchecked Sendable {
    private static let interval = Duration.milliseconds(10)

    private let loop: EventLoop
    private let budget: BufferBudget
    private var waiting: [ClientConnection] = []
    private lazy var deadline = Deadline(of: self)

    init(loop: EventLoop, budget: BufferBudget) {
        self.loop = loop
        self.budget = budget
        super.init()
    }

    func add(_ client: ClientConnection) {
        if waiting.isEmpty { loop.set(deadline, at: loop.now + Self.interval) }
        waiting.append(client)
    }

    /// Those who paused first go on first; who finds nothing left comes back.
    override func due(_ deadline: Deadline) {
        guard !budget.isExhausted else { return loop.set(deadline, at: loop.now + Self.interval) }
        let clients = waiting
        waiting = []
        for client in clients {
            client.isPaused = false
            client.resume()
        }
    }
}
