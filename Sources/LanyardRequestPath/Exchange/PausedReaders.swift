import LanyardFoundations

/// The clients of one shard that wait for memory before they are read again (http-connections.md 8). Belongs to the shard's
/// queue.
///
/// It checks every 10 ms while a client waits. Any shard may free memory, and a notification for each release would
/// cost too much.
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
        loop.assertIsCurrent()
        if waiting.isEmpty { loop.set(deadline, at: loop.now + Self.interval) }
        waiting.append(client)
    }

    /// Resumes clients in the order in which they paused. A client that finds no memory is added again.
    override func due(_ deadline: Deadline) {
        loop.assertIsCurrent()
        guard !budget.isUnder(.readingPaused) else { return loop.set(deadline, at: loop.now + Self.interval) }
        let clients = waiting
        waiting = []
        for client in clients {
            client.membership.isPaused = false
            client.resume()
        }
    }
}
