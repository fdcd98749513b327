#if DEBUG
import Dispatch
import LanyardFoundations
import Testing

/// Time that passes in a loop because a test says so. Not from a loop's queue.
extension EventLoop {
    /// From now on the loop's time stands: no deadline comes unless a test passes it.
    package func freezeTime() { [self].freezeTime() }

    /// Moves the loop's time by `duration`, from deadline to deadline: each is called at its own instant.
    ///
    /// The time stands until this returns, and afterwards as well if it stood before. At each instant, from the present one on, the loop
    /// does all that it can: posted work, ready descriptors, due deadlines, deferred watchers, and replies of its reads of files. What
    /// other threads do for the loop without `awaitedReply` is not waited for.
    ///
    /// - Parameter waitsForReplies: false: work outside the loop hangs as the test wants.
    package func pass(_ duration: Duration, waitsForReplies: Bool = true) {
        [self].pass(duration, waitsForReplies: waitsForReplies)
    }

    /// Returns when the loop has nothing left to do at its present time, which stands until then.
    package func settle(waitsForReplies: Bool = true) { pass(.zero, waitsForReplies: waitsForReplies) }

    /// Runs `work` on the loop's queue and waits for it.
    package func perform<Value: Sendable>(_ work: @escaping @Sendable () -> Value) -> Value {
        let done = DispatchSemaphore(value: 0)
        let result = Guarded<Value?>(nil)
        post {
            let value = work()
            result.withLock { $0 = value }
            done.signal()
        }
        done.wait()
        return result.withLock { $0 }!
    }
}

/// Loops that share the passing of time, such as the shards of a request path.
extension [EventLoop] {
    /// The time of all stands from now on, at one instant.
    package func freezeTime() {
        guard let instant = first?.perform({ Instant.now }) else { return }
        for loop in self { loop.perform { loop.stopTime(at: instant) } }
    }

    /// The same on all loops. At each instant all have done what they can, what they post to each other included.
    package func pass(_ duration: Duration, waitsForReplies: Bool = true) {
        for loop in self { loop.perform { loop.beginPassing() } }
        defer { for loop in self { loop.perform { loop.endPassing() } } }
        var left = duration
        settle(waitsForReplies)
        while left > .zero {
            let step = Swift.min(compactMap { loop in loop.perform { loop.timeToDeadline } }.min() ?? left, left)
            for loop in self { loop.perform { loop.advanceTime(by: step) } }
            left -= step
            settle(waitsForReplies)
        }
    }

    /// The loops' time stands here.
    private func settle(_ waitsForReplies: Bool) {
        var isSettled = false
        while !isSettled {
            // Asked before the round, which then handles what follows from a reply.
            let isWaiting = waitsForReplies && contains(where: \.awaitsReplies)
            isSettled = true
            for loop in self where loop.perform({ loop.runDueWork() }) { isSettled = false }
            guard isSettled, isWaiting else { continue }
            do {
                try blockUntil("all replies have come") { !contains(where: \.awaitsReplies) }
            } catch {
                Issue.record(error)
                return
            }
            isSettled = false
        }
    }
}
#endif
