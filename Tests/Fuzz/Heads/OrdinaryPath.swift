/// A path as an ordinary server takes it, nginx for one: escapes decoded once, then slashes merged and dot segments
/// removed. Written without a look at the library's own readers, so that one mistake is not made twice.
struct OrdinaryPath {
    /// nil: the path leads above its beginning.
    let text: [UInt8]?

    init(_ raw: [UInt8]) {
        var decoded: [UInt8] = []
        var rest = raw[...]
        while let byte = rest.popFirst() {
            guard byte == 0x25, let value = Self.hex(rest.prefix(2)) else {
                decoded.append(byte)
                continue
            }
            rest = rest.dropFirst(2)
            decoded.append(value)
        }
        var output: [UInt8] = [0x2f]
        for segment in decoded.split(separator: 0x2f) {
            switch Array(segment) {
            case [0x2e]: break
            case [0x2e, 0x2e]:
                guard output.count > 1 else {
                    text = nil
                    return
                }
                output.removeLast()
                while output.last != 0x2f { output.removeLast() }
            default: output += segment + [0x2f]
            }
        }
        // Whether a slash ended it matters to no prefix.
        text = output
    }

    /// Whether it is at or below this place, which ends in a slash.
    func isBelow(_ place: String) -> Bool { text.map { $0.starts(with: place.utf8) } ?? false }

    private static func hex(_ digits: ArraySlice<UInt8>) -> UInt8? {
        digits.count == 2 ? UInt8(String(decoding: digits, as: UTF8.self), radix: 16) : nil
    }
}
