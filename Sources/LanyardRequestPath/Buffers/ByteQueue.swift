import CLinux
import Glibc

/// Waiting bytes: data that a socket did not accept yet, or an incomplete head. An empty queue owns no memory.
///
/// Freed memory is wiped, because bytes that wait for an upstream include the bearer token.
package struct ByteQueue: ~Copyable {
    private static let firstCapacity = 4 << 10

    // An idle connection has three: a queue is shorter than 4 GiB.

    private var base: UnsafeMutableRawPointer?
    private let budget: BufferBudget?
    private var storedCapacity: UInt32 = 0
    private var storedStart: UInt32 = 0
    private var storedEnd: UInt32 = 0

    /// - Parameter budget: counts its memory.
    package init(budget: BufferBudget? = nil) { self.budget = budget }

    deinit { Self.free(base, capacity, budget) }

    private var capacity: Int { Int(storedCapacity) }
    private var start: Int { Int(storedStart) }
    private var end: Int { Int(storedEnd) }

    package var count: Int { Int(storedEnd &- storedStart) }
    package var isEmpty: Bool { storedEnd == storedStart }

    /// The waiting bytes, in order. Valid until the queue is next changed.
    package var bytes: UnsafeBufferPointer<UInt8> {
        guard let base else { return UnsafeBufferPointer(start: nil, count: 0) }
        return UnsafeBufferPointer(start: (base + start).assumingMemoryBound(to: UInt8.self), count: count)
    }

    /// The same bytes; the queue's owner may change them in place.
    package var mutableBytes: UnsafeMutableRawBufferPointer {
        mutating get { UnsafeMutableRawBufferPointer(start: base.map { $0 + start }, count: count) }
    }

    package mutating func append(_ bytes: UnsafeRawBufferPointer) {
        guard bytes.count > 0 else { return }
        reserve(bytes.count)
        memcpy(base! + end, bytes.baseAddress!, bytes.count)
        storedEnd &+= UInt32(bytes.count)
    }

    package mutating func append(_ bytes: UnsafeBufferPointer<UInt8>) { append(UnsafeRawBufferPointer(bytes)) }

    /// Removes bytes at the front. Removing the last one frees the memory.
    package mutating func consume(_ amount: Int) {
        precondition(amount >= 0 && amount <= count)
        storedStart &+= UInt32(amount)
        if isEmpty { release() }
    }

    /// Removes all bytes and frees the memory.
    package mutating func release() {
        Self.free(base, capacity, budget)
        (base, storedCapacity, storedStart, storedEnd) = (nil, 0, 0, 0)
    }

    private mutating func reserve(_ amount: Int) {
        if capacity - end >= amount { return }
        let needed = count + amount
        if let base, capacity >= needed {
            memmove(base, base + start, count)
        } else {
            var larger = max(capacity, Self.firstCapacity)
            while larger < needed { larger *= 2 }
            let block = UnsafeMutableRawPointer.allocate(byteCount: larger, alignment: 16)
            budget?.add(larger)
            if let base { memcpy(block, base + start, count) }
            Self.free(base, capacity, budget)
            (base, storedCapacity) = (block, UInt32(larger))
        }
        (storedStart, storedEnd) = (0, UInt32(count))
    }

    private static func free(_ block: UnsafeMutableRawPointer?, _ capacity: Int, _ budget: BufferBudget?) {
        guard let block else { return }
        budget?.release(capacity)
        lanyard_wipe(block, capacity)
        block.deallocate()
    }
}
