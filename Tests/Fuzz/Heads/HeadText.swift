import LanyardRequestPath

/// Room to write a head in, used again and again.
final class HeadText {
    private let base: UnsafeMutablePointer<UInt8>
    private let capacity: Int
    private var count = 0

    init(capacity: Int) {
        self.capacity = capacity
        base = .allocate(capacity: capacity)
    }

    deinit { base.deallocate() }

    /// What was written since `clear`.
    var bytes: Bytes { Bytes(start: base, count: count) }

    func clear() { count = 0 }

    func add(_ byte: UInt8) {
        precondition(count < capacity)
        base[count] = byte
        count += 1
    }

    func add(_ bytes: Bytes) {
        precondition(bytes.count <= capacity - count)
        guard let source = bytes.baseAddress else { return }
        (base + count).update(from: source, count: bytes.count)
        count += bytes.count
    }

    func add(_ text: StaticString) { add(Bytes(start: text.utf8Start, count: text.utf8CodeUnitCount)) }

    /// A number of at most three digits.
    func add(decimal number: Int) {
        if number >= 100 { add(UInt8(number / 100 % 10) + 0x30) }
        if number >= 10 { add(UInt8(number / 10 % 10) + 0x30) }
        add(UInt8(number % 10) + 0x30)
    }

    /// A hexadecimal number.
    func add(hex number: Int) {
        var shift = 60
        while shift > 0, number >> shift == 0 { shift -= 4 }
        while shift >= 0 {
            let digit = UInt8(number >> shift & 15)
            add(digit < 10 ? digit + 0x30 : digit + 0x57)
            shift -= 4
        }
    }
}
