/// A range of bytes in a buffer that another object owns. The owner's comment says how long it is valid.
package typealias Bytes = UnsafeBufferPointer<UInt8>

extension UnsafeBufferPointer where Element == UInt8 {
    /// The bytes of `range`.
    @inline(__always)
    package subscript(run range: Range<Int>) -> Bytes {
        Bytes(start: baseAddress.unsafelyUnwrapped + range.lowerBound, count: range.count)
    }

    /// Equality without regard to ASCII case. `lowered` is already lower case.
    @inline(__always)
    package func equals(lowered: StaticString) -> Bool {
        guard count == lowered.utf8CodeUnitCount else { return false }
        let other = lowered.utf8Start
        for index in 0..<count where ByteClass.lower(self[index]) != other[index] { return false }
        return true
    }

    /// Equality without regard to ASCII case.
    package func equalsIgnoringCase(_ other: Bytes) -> Bool {
        guard count == other.count else { return false }
        for index in 0..<count where ByteClass.lower(self[index]) != ByteClass.lower(other[index]) { return false }
        return true
    }

    /// Begins with these letters, without regard to ASCII case.
    package func hasPrefix(lowered: StaticString) -> Bool {
        guard count >= lowered.utf8CodeUnitCount else { return false }
        return self[run: 0..<lowered.utf8CodeUnitCount].equals(lowered: lowered)
    }

    /// Without SP and HTAB at both ends.
    package var trimmed: Bytes {
        var (start, end) = (0, count)
        while start < end, ByteClass.isSpace(self[start]) { start += 1 }
        while end > start, ByteClass.isSpace(self[end - 1]) { end -= 1 }
        return self[run: start..<end]
    }

    /// A decimal number of ASCII digits only, at most `Int.max`: no sign, separator or empty text (RFC 9110 §8.6).
    package var decimal: Int? {
        guard count > 0 else { return nil }
        var value = 0
        for byte in self {
            guard ByteClass.isDigit(byte) else { return nil }
            let (tens, first) = value.multipliedReportingOverflow(by: 10)
            let (sum, second) = tens.addingReportingOverflow(Int(byte - 0x30))
            guard !first, !second else { return nil }
            value = sum
        }
        return value
    }
}
