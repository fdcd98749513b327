/// Whole numbers from JSON's number grammar.
enum JSONNumber {
    /// The whole part of a decimal number, towards zero; nil if it has an exponent, is not a number, or has more than 15 digits.
    static func integer(_ digits: Slice<UnsafeRawBufferPointer>) -> Int64? {
        let isNegative = digits.first == UInt8(ascii: "-")
        let magnitude = isNegative ? digits.dropFirst() : digits
        let whole = magnitude.prefix { 0x30...0x39 ~= $0 }
        let fraction = magnitude.dropFirst(whole.count)
        guard 1...15 ~= whole.count else { return nil }
        if let point = fraction.first {
            guard point == UInt8(ascii: "."), fraction.count > 1,
                fraction.dropFirst().allSatisfy({ 0x30...0x39 ~= $0 })
            else { return nil }
        }
        let value = whole.reduce(Int64(0)) { $0 * 10 + Int64($1 - 0x30) }
        return isNegative ? -value : value
    }
}
