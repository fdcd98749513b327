import CLinux
import Glibc

/// Waiting bytes: data that a socket did not accept yet, or an incomplete head. An empty queue owns no memory.
///
/// Freed memory is wiped, because bytes that wait for an upstream include the bearer token.
package struct ByteQueue: ~Copyable {
    private static let firstCapacity = 4 << 10

    private var base: UnsafeMutableRawPointer?
    private var capacity = 0
    private var start = 0
    private var end = 0
    private let budget: BufferBudget?

    /// - Parameter budget: counts its memory.
    package init(budget: BufferBudget? = nil) { self.budget = budget }

    deinit { Self.free(base, capacity, budget) }

    package var count: Int { end - start }
    package var isEmpty: Bool { end == start }

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
        end += bytes.count
    }

    package mutating func append(_ bytes: UnsafeBufferPointer<UInt8>) { append(UnsafeRawBufferPointer(bytes)) }

    /// Removes bytes at the front. Removing the last one frees the memory.
    package mutating func consume(_ amount: Int) {
        precondition(amount >= 0 && amount <= count)
        start += amount
        if start == end { release() }
    }

    /// Removes all bytes and frees the memory.
    package mutating func release() {
        Self.free(base, capacity, budget)
        (base, capacity, start, end) = (nil, 0, 0, 0)
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
            (base, capacity) = (block, larger)
        }
        (start, end) = (0, count)
    }

    private static func free(_ block: UnsafeMutableRawPointer?, _ capacity: Int, _ budget: BufferBudget?) {
        guard let block else { return }
        budget?.release(capacity)
        lanyard_wipe(block, capacity)
        block.deallocate()
    }
}
