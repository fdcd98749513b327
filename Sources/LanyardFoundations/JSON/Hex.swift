/// Hexadecimal digits in lower case, for escapes and identifiers.
package enum Hex {
    /// The digit of a value from 0 to 15.
    package static func digit(_ value: UInt8) -> UInt8 { value < 10 ? 0x30 + value : 0x57 + value }

    /// All 16 digits of a number, in the order of their bytes. Without a loop: the access log writes them for each request.
    package static func digits(_ number: UInt64) -> SIMD16<UInt8> {
        let bytes = unsafeBitCast(number.bigEndian, to: SIMD8<UInt8>.self)
        var values = SIMD16<UInt8>()
        values.evenHalf = bytes &>> 4
        values.oddHalf = bytes & 15
        return values &+ 0x30 &+ SIMD16(repeating: 0).replacing(with: 0x27, where: values .> 9)
    }

    /// The last `count` digits of a number, padded with zeros.
    package static func text(_ number: some FixedWidthInteger & UnsignedInteger, count: Int) -> String {
        String(unsafeUninitializedCapacity: count) { room in
            for index in 0..<count {
                room[index] = digit(UInt8(truncatingIfNeeded: number >> (4 * (count - 1 - index))) & 15)
            }
            return count
        }
    }
}
