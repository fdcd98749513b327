import Glibc

/// What differs from run to run in what Lanyard sends; tests that compare put one letter in its place.
///
/// On bytes: tests that tear exchanges at every place need it a hundred thousand times, and a debug build's regular expressions took most of their time.
package enum VaryingText: CaseIterable, Sendable {
    /// The value of `Date`.
    case date
    /// A problem's number.
    case instance
    /// Our name in Via and Proxy-Status: eight hex digits.
    case pseudonym
    case token
    /// Sixteen hex digits in the field `X-Id`.
    case requestID

    private var mark: String {
        switch self {
        case .date: "Date: "
        case .instance: "\"instance\": \""
        case .pseudonym: "lanyard-"
        case .token: "Bearer "
        case .requestID: "X-Id: "
        }
    }

    /// How much of the bytes behind the mark varies; nil: that is not it.
    private func length(in bytes: ArraySlice<UInt8>) -> Int? {
        switch self {
        case .date, .token: return bytes.prefix { $0 != UInt8(ascii: "\r") }.count
        case .instance: return bytes.prefix(while: Self.isHex).count
        case .pseudonym: return bytes.prefix(8).count(where: Self.isHex) == 8 ? 8 : nil
        case .requestID: return bytes.prefix(16).count(where: Self.isHex) == 16 ? 16 : nil
        }
    }

    private static func isHex(_ byte: UInt8) -> Bool { (48...57).contains(byte) || (97...102).contains(byte) }

    /// A text with `x` in the place of whatever of these kinds varies.
    package static func normalized(_ text: String, _ kinds: [VaryingText] = allCases) -> String {
        var bytes = Array(text.utf8)
        for kind in kinds { bytes = kind.normalized(bytes) }
        return String(decoding: bytes, as: UTF8.self)
    }

    private func normalized(_ bytes: [UInt8]) -> [UInt8] {
        let mark = Array(mark.utf8)
        var result: [UInt8] = []
        var start = 0
        while let end = Self.end(of: mark, in: bytes, from: start) {
            result += bytes[start..<end]
            start = end
            if let length = length(in: bytes[end...]) {
                result.append(UInt8(ascii: "x"))
                start += length
            }
        }
        return start == 0 ? bytes : result + bytes[start...]
    }

    /// Behind the next place where the mark stands.
    private static func end(of mark: [UInt8], in bytes: [UInt8], from start: Int) -> Int? {
        bytes.withUnsafeBytes { bytes in
            guard let base = bytes.baseAddress else { return nil }
            var start = start
            while start + mark.count <= bytes.count {
                guard let found = memchr(base + start, CInt(mark[0]), bytes.count - start - mark.count + 1) else {
                    break
                }
                if memcmp(found, mark, mark.count) == 0 { return UnsafeRawPointer(found) - base + mark.count }
                start = UnsafeRawPointer(found) - base + 1
            }
            return nil
        }
    }
}
