import Synchronization

/// The memory that all buffers of the process hold together, against `limits.buffer_bytes_max` (http-requirements §8).
///
/// Counted when a buffer's memory is had or given back, never per byte. It fills in steps: beyond three quarters what can be done
/// without goes and is not taken any more, and sockets are read in small portions; beyond seven eighths new requests are refused, and
/// heads that are not whole are given up; at the limit reading pauses. The last step but one keeps room in which the answers under way go on, since requests in hand hold memory,
/// too; and the small portions see to it that only thousands of readers who stand still together reach the last.
///
/// May be used from anywhere.
package final class BufferBudget: Sendable {
    /// One read while memory is scarce: with a chunk's framing it fits into the smallest queue.
    private static let smallPortion = 4000

    private let taken = Atomic<Int>(0)
    package let most: Int
    private let spareMost: Int
    private let requestMost: Int
    private let relief = Guarded<[@Sendable () -> Void]>([])
    private let rescue = Guarded<[@Sendable () -> Void]>([])

    /// - Parameter most: bytes; what was read already may go beyond it, by one read of each shard.
    package init(_ most: Int) {
        self.most = most
        spareMost = most / 4 * 3
        requestMost = most / 8 * 7
    }

    /// Takes bytes for something that can be done without, such as the copy of a request for a replay. Give back what was taken.
    package func take(_ bytes: Int) -> Bool {
        guard taken.add(bytes, ordering: .relaxed).newValue <= spareMost else {
            taken.subtract(bytes, ordering: .relaxed)
            return false
        }
        return true
    }

    /// Counts bytes that must be held, since they have arrived.
    package func add(_ bytes: Int) {
        let now = taken.add(bytes, ordering: .relaxed).newValue
        guard now > spareMost else { return }
        if now - bytes <= spareMost { Self.call(relief) }
        if now > requestMost, now - bytes <= requestMost { Self.call(rescue) }
    }

    package func giveBack(_ bytes: Int) { taken.subtract(bytes, ordering: .relaxed) }

    /// Bytes held now.
    package var count: Int { taken.load(ordering: .relaxed) }

    /// How many bytes one read may bring now, which perhaps have to wait; 0: reading pauses.
    @inline(__always)
    package func portion(upTo whole: Int) -> Int {
        let count = taken.load(ordering: .relaxed)
        if count <= spareMost { return whole }
        return count < most ? min(whole, Self.smallPortion) : 0
    }

    /// New requests are refused.
    package var isCrowded: Bool { taken.load(ordering: .relaxed) > requestMost }

    /// Reading pauses.
    package var isExhausted: Bool { taken.load(ordering: .relaxed) >= most }

    /// What can be done without is to go.
    package var isTight: Bool { taken.load(ordering: .relaxed) > spareMost }

    /// Has `work` called, on any thread, each time three quarters are passed: it lets go of what can be done without, soon and elsewhere.
    /// Set up before the first buffer.
    package func whenTight(_ work: @escaping @Sendable () -> Void) { relief.withLock { $0.append(work) } }

    /// The same each time seven eighths are passed: it gives up what merely waits for the rest of a head.
    package func whenCrowded(_ work: @escaping @Sendable () -> Void) { rescue.withLock { $0.append(work) } }

    private static func call(_ works: borrowing Guarded<[@Sendable () -> Void]>) {
        for work in works.withLock({ $0 }) { work() }
    }
}
