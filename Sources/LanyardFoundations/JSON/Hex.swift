/// Hexadecimal digits in lower case, for escapes and identifiers.
package enum Hex {
    /// The digit of a value from 0 to 15.
    package static func digit(_ value: UInt8) -> UInt8 { value < 10 ? 0x30 + value : 0x57 + value }

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
