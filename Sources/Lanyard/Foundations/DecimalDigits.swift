/// Numbers as ASCII digits of a fixed width, for dates.
enum DecimalDigits {
    /// Writes the last `width` digits of `number`, with leading zeros.
    static func write(_ number: Int, width: Int, into bytes: UnsafeMutablePointer<UInt8>) {
        var rest = number
        for place in stride(from: width - 1, through: 0, by: -1) {
            bytes[place] = UInt8(ascii: "0") + UInt8(truncatingIfNeeded: rest % 10)
            rest /= 10
        }
    }
}
