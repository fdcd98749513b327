import LanyardFoundations

/// A reader of a socket that pauses while no memory is left for what it reads. It is resumed in the shard's queue.
protocol PausableReader: Watcher {
    var isPaused: Bool { get set }
}

/// The readers of one shard that wait for memory before they read again (http-connections.md 8). Belongs to the shard's queue.
///
/// It checks every 10 ms while one waits. Any shard may free memory, and a notification for each release would
/// cost too much.
final class PausedReaders: Watcher, @unchecked Sendable {
    private static let interval = Duration.milliseconds(10)

    private let loop: EventLoop
    private let budget: BufferBudget
    private var waiting: [any PausableReader] = []
    private lazy var deadline = Deadline(of: self)

    init(loop: EventLoop, budget: BufferBudget) {
        self.loop = loop
        self.budget = budget
        super.init()
    }

    func add(_ reader: any PausableReader) {
        loop.assertIsCurrent()
        if waiting.isEmpty { loop.set(deadline, at: loop.now + Self.interval) }
        waiting.append(reader)
    }

    /// Resumes readers in the order in which they paused. One that finds no memory is added again.
    override func due(_ deadline: Deadline) {
        loop.assertIsCurrent()
        guard !budget.isUnder(.readingPaused) else { return loop.set(deadline, at: loop.now + Self.interval) }
        let readers = waiting
        waiting = []
        for reader in readers {
            reader.isPaused = false
            reader.resume()
        }
    }
}
