/// A path as the most literal and as the most obliging reader takes it (http-rules.md 2.2).
///
/// *Plain*: escapes of unreserved characters decoded. *Hostile*: all escapes decoded, twice; `\` read as `/`; slashes merged;
/// `;parameters` cut; dot segments removed. Where both lead to the same route and verdict, and dots lead nobody else elsewhere (`PathReader`),
/// the raw path is safe to send on.
package struct PathViews: Equatable, Sendable {
    package let plain: [UInt8]
    package let hostile: [UInt8]
    /// Dot segments lead above the root.
    package let escapesRoot: Bool

    /// Both views are the path itself, which is nearly always so: no escape, no `;`, `\`, `//`, no dot segment.
    package static func isSimple(_ path: Bytes) -> Bool {
        var previous: UInt8 = 0
        for byte in path {
            switch byte {
            case UInt8(ascii: "%"), UInt8(ascii: ";"), UInt8(ascii: "\\"): return false
            case UInt8(ascii: "/") where previous == UInt8(ascii: "/"): return false
            case UInt8(ascii: ".") where previous == UInt8(ascii: "/"): return false
            default: previous = byte
            }
        }
        return true
    }

    /// nil for what is always refused: `%` without two hex digits, `%00` (http-rules.md 2.4).
    package init?(_ path: Bytes) {
        guard let plain = Self.decode(Array(path), only: PathReader.isUnreserved) else { return nil }
        self.plain = plain
        (hostile, escapesRoot) = PathReader.hostile.read(Array(path))
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
