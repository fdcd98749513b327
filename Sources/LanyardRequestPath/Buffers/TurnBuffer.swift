import CLinux

/// The frames of one connection that leave in one send at the end of the loop's turn. A shard keeps some, so that a turn costs no
/// allocation. Belongs to the shard's queue, which its users check.
final class TurnBuffer {
    /// Bytes: a turn's frames of nearly all connections.
    static let capacity = 64 << 10

    private let base: UnsafeMutableRawPointer
    private(set) var count = 0

    init() { base = .allocate(byteCount: Self.capacity, alignment: 64) }

    /// Wiped, as heads are in it.
    deinit {
        lanyard_wipe(base, Self.capacity)
        base.deallocate()
    }

    var bytes: UnsafeRawBufferPointer { UnsafeRawBufferPointer(start: base, count: count) }
    var room: UnsafeMutableRawBufferPointer {
        UnsafeMutableRawBufferPointer(start: base + count, count: Self.capacity - count)
    }

    func record(_ amount: Int) { count += amount }
    func clear() { count = 0 }
}
