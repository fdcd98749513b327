import LanyardFoundations
import Synchronization

/// How near the buffers are to their limit. Each level has the effects of those before it, too.
package enum MemoryPressure: Sendable {
    /// Beyond three quarters: optional memory is freed, and no more is allocated.
    case optionalFreed
    /// Beyond seven eighths: new requests are refused, and connections with an incomplete head are closed.
    case requestsRefused
    /// Nothing is left: reading pauses.
    case readingPaused
}

/// The memory that all buffers of the process hold together, against `limits.buffer_bytes_max` (http-connections.md 8).
///
/// Counted when a buffer's memory is allocated or freed, never per byte. Effects by level:
///
/// | in use beyond | what happens |
/// |---|---|
/// | 1/8, with the next read | a read that could bring 255 KiB brings 64 KiB at most |
/// | 1/4, 1/2 | one read, with a chunk's framing, fits into 16 KiB, 8 KiB |
/// | 3/4 | one read fits into 4 KiB; optional memory (replay copies) is freed and no more is allocated |
/// | 7/8 | new requests are refused; connections with an incomplete head are closed |
/// | all | reading pauses |
///
/// Buffers that hold a part of a TLS record count up to 13/16. Beyond, those who have them are given up like incomplete heads, and what is
/// left of them does not count: such a buffer becomes free only when its session reads, so it must not stop reading.
///
/// The last eighth is for responses in progress, because their requests hold memory, too. Read sizes shrink early because a client that
/// stops reading holds one read. In 64 MiB, 5,000 such clients stay below 7/8, which is more than the default of `limits.connections_max`.
///
/// May be used from any thread.
package final class BufferBudget: Sendable {
    /// One read beyond a quarter, a half and three quarters. With a chunk's framing it fits into a queue of 16, 8 and 4 KiB.
    private static let readSizes = (quarter: 16_000, half: 8_000, threeQuarters: 4_000)

    private let taken = Atomic<Int>(0)
    private let limit: Atomic<Int>
    /// Of `taken`, the buffers of partial TLS records.
    private let partialRecords = Atomic<Int>(0)
    /// A buffer of a partial TLS record did not count since they last took three quarters or less.
    private let isOverflowing = Atomic<Bool>(false)
    /// Filled late, as the next two are, because who frees memory is made of this budget.
    private let optionalHandlers = Guarded<[@Sendable () -> Void]>([])
    /// Filled late because who frees memory is made of this budget.
    private let requestHandlers = Guarded<[@Sendable () -> Void]>([])
    /// Filled late because who frees memory is made of this budget.
    private let freedHandlers = Guarded<[@Sendable () -> Void]>([])

    /// - Parameter bytesMax: in bytes. Data that was already read may exceed it, by one read of each shard.
    package init(_ bytesMax: Int) {
        limit = Atomic(bytesMax)
    }

    /// Sets another limit. Memory beyond a lower one is not taken away, but the effects of its level begin at once.
    package func setMax(_ bytesMax: Int) {
        guard bytesMax != limit.exchange(bytesMax, ordering: .relaxed) else { return }
        if isUnder(.optionalFreed) { Self.call(optionalHandlers) }
        if isUnder(.requestsRefused) { Self.call(requestHandlers) }
    }

    package var bytesMax: Int { limit.load(ordering: .relaxed) }
    private var optionalBytesMax: Int { bytesMax / 4 * 3 }
    private var requestBytesMax: Int { bytesMax / 8 * 7 }

    /// Reserves bytes for optional memory, such as the copy of a request for a replay. The caller releases the same number.
    package func acquire(_ bytes: Int) -> Bool {
        guard taken.add(bytes, ordering: .relaxed).newValue <= optionalBytesMax else {
            taken.subtract(bytes, ordering: .relaxed)
            return false
        }
        return true
    }

    /// Counts bytes that must be held, because they have arrived.
    package func add(_ bytes: Int) {
        let now = taken.add(bytes, ordering: .relaxed).newValue
        let (optionalBytesMax, requestBytesMax) = (optionalBytesMax, requestBytesMax)
        guard now > optionalBytesMax else { return }
        if now - bytes <= optionalBytesMax { Self.call(optionalHandlers) }
        if now > requestBytesMax, now - bytes <= requestBytesMax { Self.call(requestHandlers) }
    }

    /// Counts the buffers of a TLS session that hold a part of a record. False: there are too many, and these do not count.
    package func addPartialRecord(_ bytes: Int) -> Bool {
        guard partialRecords.add(bytes, ordering: .relaxed).newValue <= bytesMax / 16 * 13 else {
            partialRecords.subtract(bytes, ordering: .relaxed)
            // Once, because it looks at all clients.
            if !isOverflowing.exchange(true, ordering: .relaxed) { Self.call(requestHandlers) }
            return false
        }
        add(bytes)
        return true
    }

    /// The same number as `addPartialRecord` has counted.
    package func releasePartialRecord(_ bytes: Int) {
        if partialRecords.subtract(bytes, ordering: .relaxed).newValue <= optionalBytesMax {
            isOverflowing.store(false, ordering: .relaxed)
        }
        release(bytes)
    }

    package func release(_ bytes: Int) { taken.subtract(bytes, ordering: .relaxed) }

    /// Bytes held now.
    package var count: Int { taken.load(ordering: .relaxed) }

    /// The number of bytes that one read may bring now, which may have to wait; 0: reading pauses.
    @inline(__always)
    package func readSize(upTo whole: Int) -> Int {
        let count = taken.load(ordering: .relaxed)
        let bytesMax = bytesMax
        if count <= bytesMax / 4 {
            let isLarge = whole > ReadSize.standard && count + whole > bytesMax / 8
            return isLarge ? ReadSize.standard : whole
        }
        if count <= bytesMax / 2 { return min(whole, Self.readSizes.quarter) }
        if count <= bytesMax / 4 * 3 { return min(whole, Self.readSizes.half) }
        return count < bytesMax ? min(whole, Self.readSizes.threeQuarters) : 0
    }

    /// Whether the pressure is this or higher.
    @inline(__always)
    package func isUnder(_ pressure: MemoryPressure) -> Bool {
        let taken = taken.load(ordering: .relaxed)
        return switch pressure {
        case .optionalFreed: taken > optionalBytesMax
        case .requestsRefused: taken > requestBytesMax
        case .readingPaused: taken >= bytesMax
        }
    }

    /// Has `work` called, on any thread, each time the level passes three quarters. It frees optional memory, soon and on another queue.
    /// Set up before the first buffer.
    package func whenOptionalFreed(_ work: @escaping @Sendable () -> Void) {
        optionalHandlers.withLock { $0.append(work) }
    }

    /// The same for seven eighths: `work` closes connections that wait for the rest of a head.
    package func whenRequestsRefused(_ work: @escaping @Sendable () -> Void) {
        requestHandlers.withLock { $0.append(work) }
    }

    /// Has `work` called, on any thread, when much memory that is not counted here has been freed: it may be returned to the kernel.
    package func whenUncountedFreed(_ work: @escaping @Sendable () -> Void) {
        freedHandlers.withLock { $0.append(work) }
    }

    /// Much memory that is not counted here has been freed.
    func noteUncountedFreed() { Self.call(freedHandlers) }

    private static func call(_ works: borrowing Guarded<[@Sendable () -> Void]>) {
        for work in works.withLock({ $0 }) { work() }
    }
}
