/// Builds heads and short answers in one buffer that a shard uses again and again.
///
/// Large enough for the longest head that the readers let pass with all that is added; who writes more has a bug, which traps.
struct HeadWriter: ~Copyable {
    /// A request line, a base path, a request's or response's section and what is added.
    static let capacity = 256 << 10

    private let base: UnsafeMutablePointer<UInt8>
    private(set) var count = 0

    init() { base = .allocate(capacity: Self.capacity) }

    deinit { base.deallocate() }

    /// What was written since `clear`. Valid until then.
    var bytes: UnsafeRawBufferPointer { UnsafeRawBufferPointer(start: base, count: count) }

    var room: Int { Self.capacity - count }

    mutating func clear() { count = 0 }

    @inline(__always)
    mutating func write(_ byte: UInt8) {
        precondition(count < Self.capacity)
        base[count] = byte
        count += 1
    }

    @inline(__always)
    mutating func write(_ bytes: UnsafeRawBufferPointer) {
        precondition(bytes.count <= Self.capacity - count)
        guard let source = bytes.baseAddress else { return }
        UnsafeMutableRawPointer(base + count).copyMemory(from: source, byteCount: bytes.count)
        count += bytes.count
    }

    @inline(__always)
    mutating func write(_ bytes: Bytes) { write(UnsafeRawBufferPointer(bytes)) }

    @inline(__always)
    mutating func write(_ text: StaticString) {
        write(UnsafeRawBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount))
    }

    @inline(__always)
    mutating func write(_ bytes: [UInt8]) { bytes.withUnsafeBytes { write($0) } }

    mutating func write(_ text: String) {
        var text = text
        text.withUTF8 { write(UnsafeRawBufferPointer($0)) }
    }

    mutating func write(_ secret: Secret) { secret.withBytes { write($0) } }

    /// A decimal number, not negative.
    mutating func write(decimal number: Int) {
        var digits: (UInt64, UInt64, UInt64) = (0, 0, 0)
        withUnsafeMutableBytes(of: &digits) { room in
            var left = number
            var index = room.count
            repeat {
                index -= 1
                room[index] = UInt8(left % 10) + 0x30
                left /= 10
            } while left > 0
            write(UnsafeRawBufferPointer(rebasing: room[index...]))
        }
    }

    /// A chunk's size line.
    mutating func write(chunkOf size: Int) {
        var shift = 60
        while shift > 0, size >> shift == 0 { shift -= 4 }
        while shift >= 0 {
            let digit = UInt8(size >> shift & 15)
            write(digit < 10 ? digit + 0x30 : digit + 0x57)
            shift -= 4
        }
        write("\r\n" as StaticString)
    }
}
