import CLanyard.Linux

/// Gives the kernel back what the allocator has kept while the buffers' memory is scarce: buffers of many sizes that come and go leave
/// holes, and the process would grow beyond `limits.buffer_bytes_max` by those.
///
/// Belongs to the queue of its loop, which is none of the shards: a trim takes milliseconds. Lives as long as that loop.
package final class MemoryTrimmer: Watcher, @unchecked Sendable {
    /// Between two trims.
    private static let interval = Duration.seconds(1)

    private let loop: EventLoop
    private let budget: BufferBudget
    private lazy var deadline = Deadline(of: self)

    /// Does nothing before the budget is tight for the first time.
    package init(of budget: BufferBudget, on loop: EventLoop) {
        self.budget = budget
        self.loop = loop
        super.init()
        budget.whenTight { [weak self] in
            guard let self else { return }
            self.loop.post { [weak self] in self?.begin() }
        }
    }

    private func begin() {
        guard deadline.instant == .never else { return }
        loop.set(deadline, at: loop.now + Self.interval)
    }

    /// Once more when the pressure has gone: what was held then is free now.
    override package func due(_ deadline: Deadline) {
        lanyard_return_memory()
        if budget.count > budget.bytesMax / 2 { loop.set(deadline, at: loop.now + Self.interval) }
    }
}
