import CLinux
import LanyardFoundations

/// Builds heads and short responses in one buffer that a shard reuses.
///
/// The buffer fits nearly all heads with all added fields. A longer one lets it grow, to 2 MiB at most with the largest limits.
struct HeadWriter: ~Copyable {
    /// Bytes: a request line, a base path, a field section, and added fields.
    private static let firstCapacity = 256 << 10

    private var base: UnsafeMutablePointer<UInt8>
    private var capacity: Int
    private(set) var count = 0

    /// - Parameter capacity: bytes.
    init(capacity: Int = firstCapacity) {
        self.capacity = capacity
        base = .allocate(capacity: capacity)
    }

    deinit { Self.free(base, capacity) }

    /// The bytes written since `clear`. Valid until the next `clear`.
    var bytes: UnsafeRawBufferPointer { UnsafeRawBufferPointer(start: base, count: count) }

    mutating func clear() { count = 0 }

    @inline(__always)
    mutating func write(_ byte: UInt8) {
        if count == capacity { grow(by: 1) }
        base[count] = byte
        count += 1
    }

    @inline(__always)
    mutating func write(_ bytes: UnsafeRawBufferPointer) {
        if bytes.count > capacity - count { grow(by: bytes.count) }
        guard let source = bytes.baseAddress else { return }
        UnsafeMutableRawPointer(base + count).copyMemory(from: source, byteCount: bytes.count)
        count += bytes.count
    }

    @inline(__always)
    mutating func write(_ bytes: UnsafeBufferPointer<UInt8>) { write(UnsafeRawBufferPointer(bytes)) }

    @inline(__always)
    mutating func write(_ text: StaticString) {
        write(UnsafeRawBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount))
    }

    @inline(__always)
    mutating func write(_ bytes: [UInt8]) { bytes.withUnsafeBytes { write($0) } }

    /// Letters become small ones.
    mutating func write(lowered bytes: UnsafeBufferPointer<UInt8>) {
        if bytes.count > capacity - count { grow(by: bytes.count) }
        guard let source = bytes.baseAddress else { return }
        let place = UnsafeMutableRawPointer(base + count)
        var index = 0
        while index &+ 8 <= bytes.count {
            let word = UnsafeRawPointer(source).loadUnaligned(fromByteOffset: index, as: UInt64.self)
            place.storeBytes(of: Self.lowered(word), toByteOffset: index, as: UInt64.self)
            index &+= 8
        }
        while index < bytes.count {
            let byte = source[index]
            place.storeBytes(of: byte &- 0x41 < 26 ? byte | 0x20 : byte, toByteOffset: index, as: UInt8.self)
            index &+= 1
        }
        count += bytes.count
    }

    /// Eight bytes at once: the high bit of each place that has a capital letter becomes the bit that makes it a small one.
    @inline(__always)
    private static func lowered(_ word: UInt64) -> UInt64 {
        let high: UInt64 = 0x8080_8080_8080_8080
        let low = word & ~high
        let fromA = low &+ 0x3f3f_3f3f_3f3f_3f3f
        let behindZ = low &+ 0x2525_2525_2525_2525
        let isCapital = fromA & ~behindZ & ~word & high
        return word | isCapital &>> 2
    }

    mutating func write(_ text: String) {
        // All strings but bridged ones have their bytes in one piece.
        guard text.utf8.withContiguousStorageIfAvailable({ write($0) }) == nil else { return }
        for byte in text.utf8 { write(byte) }
    }

    mutating func write(_ secret: Secret) { secret.withBytes { write($0) } }

    /// 16 hex digits.
    mutating func write(hex number: UInt64) {
        if capacity - count < 16 { grow(by: 16) }
        let place = UnsafeMutableRawPointer(base + count)
        place.storeBytes(of: Self.hexDigits(UInt32(truncatingIfNeeded: number >> 32)), as: UInt64.self)
        place.storeBytes(of: Self.hexDigits(UInt32(truncatingIfNeeded: number)), toByteOffset: 8, as: UInt64.self)
        count += 16
    }

    /// Eight hex digits, as they lie in memory: all digits are made at once, one in each byte.
    private static func hexDigits(_ number: UInt32) -> UInt64 {
        let ones: UInt64 = 0x0101_0101_0101_0101
        // Each step halves the groups of digits and moves them apart, until each has a byte.
        var digits = UInt64(number)
        digits = (digits | digits << 16) & 0x0000_ffff_0000_ffff
        digits = (digits | digits << 8) & 0x00ff_00ff_00ff_00ff
        digits = (digits | digits << 4) & 0x0f0f_0f0f_0f0f_0f0f
        // 1 where the digit is a letter, which stands 39 places behind where a digit would.
        let letters = (digits + ones * 6) >> 4 & ones
        return (digits + ones * 0x30 + letters * 39).bigEndian
    }

    /// A decimal number, not negative.
    mutating func write(decimal number: Int) {
        if capacity - count < Self.decimalDigitsMax { grow(by: Self.decimalDigitsMax) }
        var left = UInt(number)
        var digits = 1
        var limit: UInt = 10
        while left >= limit, digits < Self.decimalDigitsMax {
            digits &+= 1
            limit &*= 10
        }
        count += digits
        var place = base + count
        // Two at a time: the digits of three lengths were a fiftieth of the instructions of a request.
        let pairs = UnsafeRawPointer(Self.digitPairs.utf8Start)
        while left >= 10 {
            place -= 2
            let pair = pairs.loadUnaligned(fromByteOffset: Int(left % 100) &* 2, as: UInt16.self)
            UnsafeMutableRawPointer(place).storeBytes(of: pair, as: UInt16.self)
            left /= 100
            if left == 0 { return }
        }
        (place - 1).pointee = UInt8(truncatingIfNeeded: left) &+ 0x30
    }

    /// `00` to `99`.
    private static let digitPairs: StaticString = """
        0001020304050607080910111213141516171819202122232425262728293031323334353637383940414243444546474849\
        5051525354555657585960616263646566676869707172737475767778798081828384858687888990919293949596979899
        """

    /// Digits of `Int.max`.
    private static let decimalDigitsMax = 19

    /// Few heads need this.
    @inline(never)
    private mutating func grow(by amount: Int) {
        var larger = capacity * 2
        while larger - count < amount { larger *= 2 }
        let block = UnsafeMutablePointer<UInt8>.allocate(capacity: larger)
        block.update(from: base, count: count)
        Self.free(base, capacity)
        (base, capacity) = (block, larger)
    }

    /// The buffer is wiped because it held the bearer token.
    private static func free(_ block: UnsafeMutablePointer<UInt8>, _ capacity: Int) {
        lanyard_wipe(block, capacity)
        block.deallocate()
    }
}
