import Glibc

/// The parts of Lanyard's output that differ from run to run. Tests that compare replace each with one letter.
///
/// It works on bytes: tests that tear exchanges at every place call it a hundred thousand times. Regular expressions of a debug build took
/// most of their time.
package enum VaryingText: CaseIterable, Sendable {
    /// The value of `Date`.
    case date
    /// A problem's `instance`.
    case instance
    /// Lanyard's pseudonym in Via and Proxy-Status: eight hex digits.
    case pseudonym
    case token
    /// Sixteen hex digits in the field `X-Id`.
    case requestID

    private var prefix: String {
        switch self {
        case .date: "Date: "
        case .instance: "\"instance\":\""
        case .pseudonym: "lanyard-"
        case .token: "Bearer "
        case .requestID: "X-Id: "
        }
    }

    /// How many of the bytes after the prefix vary; nil: they are not of this kind.
    private func length(in bytes: ArraySlice<UInt8>) -> Int? {
        switch self {
        case .date, .token: return bytes.prefix { $0 != UInt8(ascii: "\r") }.count
        case .instance: return bytes.prefix(while: Self.isHex).count
        case .pseudonym: return bytes.prefix(8).count(where: Self.isHex) == 8 ? 8 : nil
        case .requestID: return bytes.prefix(16).count(where: Self.isHex) == 16 ? 16 : nil
        }
    }

    private static func isHex(_ byte: UInt8) -> Bool { (48...57).contains(byte) || (97...102).contains(byte) }

    /// A text with `x` in place of each varying part of these kinds.
    package static func normalized(_ text: String, _ kinds: [VaryingText] = allCases) -> String {
        var bytes = Array(text.utf8)
        for kind in kinds { bytes = kind.normalized(bytes) }
        return String(decoding: bytes, as: UTF8.self)
    }

    private func normalized(_ bytes: [UInt8]) -> [UInt8] {
        let prefix = Array(prefix.utf8)
        var result: [UInt8] = []
        var start = 0
        while let end = Self.end(of: prefix, in: bytes, from: start) {
            result += bytes[start..<end]
            start = end
            if let length = length(in: bytes[end...]) {
                result.append(UInt8(ascii: "x"))
                start += length
            }
        }
        return start == 0 ? bytes : result + bytes[start...]
    }

    /// The position after the next occurrence of the prefix.
    private static func end(of prefix: [UInt8], in bytes: [UInt8], from start: Int) -> Int? {
        bytes.withUnsafeBytes { bytes in
            guard let base = bytes.baseAddress else { return nil }
            var start = start
            while start + prefix.count <= bytes.count {
                guard let found = memchr(base + start, CInt(prefix[0]), bytes.count - start - prefix.count + 1) else {
                    break
                }
                if memcmp(found, prefix, prefix.count) == 0 { return UnsafeRawPointer(found) - base + prefix.count }
                start = UnsafeRawPointer(found) - base + 1
            }
            return nil
        }
    }
}
