/// A path as the most literal reader and as the most lenient reader understand it (http-requests.md 2.2).
///
/// - *Plain*: escapes of unreserved characters are decoded.
/// - *Normalised*: all escapes are decoded, twice. `\` is read as `/`. Slashes are merged, `;parameters` are cut, and dot
///   segments are removed.
///
/// The raw path can be forwarded if both views lead to the same route and decision, and dot segments lead no other
/// reader elsewhere (`PathReader`).
package struct PathViews: Equatable, Sendable {
    package let plain: [UInt8]
    package let normalized: [UInt8]
    /// Dot segments lead above the root.
    package let escapesRoot: Bool

    /// Both views are the path itself, as for most paths: no escape, no `;`, `\`, `//`, no dot segment.
    package static func isSimple(_ path: Bytes) -> Bool {
        var isBehindSlash = false
        for byte in path {
            // Nearly all bytes of a path.
            if ByteClass.isPlainName(byte) {
                isBehindSlash = false
                continue
            }
            switch byte {
            case UInt8(ascii: "%"), UInt8(ascii: ";"), UInt8(ascii: "\\"): return false
            case UInt8(ascii: "/"), UInt8(ascii: "."):
                if isBehindSlash { return false }
                isBehindSlash = byte == UInt8(ascii: "/")
            default: isBehindSlash = false
            }
        }
        return true
    }

    /// nil for a path that is always refused: `%` without two hex digits, `%00` (http-requests.md 2.4).
    package init?(_ path: Bytes) {
        guard let plain = Self.decode(Array(path), only: PathReader.isUnreserved) else { return nil }
        self.plain = plain
        (normalized, escapesRoot) = PathReader.normalized.read(Array(path))
    }

    private static func decode(_ path: [UInt8], only admits: (UInt8) -> Bool) -> [UInt8]? {
        var result: [UInt8] = []
        result.reserveCapacity(path.count)
        var index = 0
        while index < path.count {
            guard path[index] == UInt8(ascii: "%") else {
                result.append(path[index])
                index += 1
                continue
            }
            guard index + 2 < path.count, let high = ByteClass.hexValue(path[index + 1]),
                let low = ByteClass.hexValue(path[index + 2]), high | low != 0
            else { return nil }
            let byte = high << 4 | low
            if admits(byte) { result.append(byte) } else { result += path[index..<(index + 3)] }
            index += 3
        }
        return result
    }
}
