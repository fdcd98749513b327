/// A path as the most literal and as the most obliging reader takes it (http-requirements §2).
///
/// *Plain*: escapes of unreserved characters decoded. *Hostile*: all escapes decoded, twice; `\` read as `/`; slashes merged;
/// `;parameters` cut; dot segments removed. Where both lead to the same route and verdict, the raw path is safe to send on.
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

    /// nil for what is always refused: `%` without two hex digits, `%00` (http-requirements 2.4).
    package init?(_ path: Bytes) {
        guard let plain = Self.decode(Array(path), only: Self.isUnreserved) else { return nil }
        self.plain = plain
        // Twice decoded; a stray `%` that the first pass brings forth stays as it is.
        let once = Self.decodeLoosely(Array(path))
        (hostile, escapesRoot) = Self.normalise(Self.decodeLoosely(once))
    }

    /// Whether the part behind a matched prefix climbs out of it.
    package static func climbsOut(_ suffix: Bytes) -> Bool {
        let twice = decodeLoosely(decodeLoosely(Array(suffix)))
        return normalise(twice).escapes
    }

    private static func isUnreserved(_ byte: UInt8) -> Bool {
        ByteClass.isAlphanumeric(byte) || byte == UInt8(ascii: "-") || byte == UInt8(ascii: ".")
            || byte == UInt8(ascii: "_") || byte == UInt8(ascii: "~")
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

    private static func decodeLoosely(_ path: [UInt8]) -> [UInt8] {
        var result: [UInt8] = []
        result.reserveCapacity(path.count)
        var index = 0
        while index < path.count {
            if path[index] == UInt8(ascii: "%"), index + 2 < path.count, let high = ByteClass.hexValue(path[index + 1]),
                let low = ByteClass.hexValue(path[index + 2])
            {
                result.append(high << 4 | low)
                index += 3
            } else {
                result.append(path[index])
                index += 1
            }
        }
        return result
    }

    private static func normalise(_ path: [UInt8]) -> (path: [UInt8], escapes: Bool) {
        var segments: [ArraySlice<UInt8>] = []
        var escapes = false
        var endsInSlash = false
        for segment in path.split(
            omittingEmptySubsequences: false, whereSeparator: { $0 == UInt8(ascii: "/") || $0 == UInt8(ascii: "\\") })
        {
            let name = segment.prefix { $0 != UInt8(ascii: ";") }
            endsInSlash = true
            if name.isEmpty || name.elementsEqual(".".utf8) { continue }
            if name.elementsEqual("..".utf8) {
                if segments.popLast() == nil { escapes = true }
                continue
            }
            segments.append(name)
            endsInSlash = false
        }
        var result: [UInt8] = []
        for segment in segments {
            result.append(UInt8(ascii: "/"))
            result += segment
        }
        if endsInSlash || result.isEmpty { result.append(UInt8(ascii: "/")) }
        return (result, escapes)
    }
}
