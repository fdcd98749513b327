import CLinux
import LanyardFoundations

/// Returns the allocator's free memory to the kernel while the buffers' memory is scarce, when many TLS sessions have ended, and once after
/// the start. Buffers of many sizes leave holes, and the process would grow beyond `limits.buffer_bytes_max` by those.
///
/// Belongs to the queue of its loop, which is not a shard's: a trim takes milliseconds. Lives as long as that loop.
package final class MemoryTrimmer: Watcher, @unchecked Sendable {
    /// Between two trims.
    private static let interval = Duration.seconds(1)

    private let loop: EventLoop
    private let budget: BufferBudget
    /// The code that only the start executes was given back.
    private var hasReturnedStart = false
    private lazy var deadline = Deadline(of: self)

    /// Does nothing before `start`, and before optional memory is freed, or many sessions have ended, for the first time.
    package init(of budget: BufferBudget, on loop: EventLoop) {
        self.budget = budget
        self.loop = loop
        super.init()
        let begin: @Sendable () -> Void = { [weak self] in
            guard let self else { return }
            self.loop.post { [weak self] in self?.begin() }
        }
        budget.whenOptionalFreed(begin)
        budget.whenUncountedFreed(begin)
    }

    /// The program begins to serve. Its start has ended on all threads an interval later.
    package func start() {
        loop.post { [weak self] in self?.begin() }
    }

    private func begin() {
        guard deadline.instant == .never else { return }
        loop.set(deadline, at: loop.now + Self.interval)
    }

    /// Trims once more after the pressure has ended: memory that was in use before is free now.
    override package func due(_ deadline: Deadline) {
        loop.assertIsCurrent()
        lanyard_return_memory()
        if !hasReturnedStart {
            hasReturnedStart = true
            Machine.returnStartCode()
        }
        if budget.count > budget.bytesMax / 2 { loop.set(deadline, at: loop.now + Self.interval) }
    }
}
