/// One way in which a server, or a cache in front of it, may read a path. All of them remove dot segments. What such a
/// segment removes depends on the other options: `/a%5cb/../../c` becomes `/c` for a reader that sees one segment
/// before the dots, and `/a/c` for one that sees two.
struct PathReader: Equatable, Sendable {
    /// Which escapes are decoded before the path is split.
    enum Decoding: CaseIterable, Sendable {
        case none
        /// Those of unreserved characters (RFC 3986 §6.2.2.2).
        case unreserved
        case once, twice
    }

    let decoding: Decoding
    /// `%2f` becomes a separator if escapes are decoded at all; else it stays as it is.
    let decodesSlashes: Bool
    let splitsAtBackslash: Bool
    /// `;parameters` of a segment are cut off.
    let cutsParameters: Bool
    let mergesSlashes: Bool

    /// All options are on: its view is the *normalised* one of http-requests.md 2.2.
    static let normalized = PathReader(
        decoding: .twice, decodesSlashes: true, splitsAtBackslash: true, cutsParameters: true, mergesSlashes: true)

    /// Each combination of options.
    static let all: [PathReader] = {
        let choices = [false, true]
        return Decoding.allCases.flatMap { decoding in
            (decoding == .once || decoding == .twice ? choices : [false]).flatMap { slashes in
                choices.flatMap { backslash in
                    choices.flatMap { parameters in
                        choices.map {
                            PathReader(
                                decoding: decoding, decodesSlashes: slashes, splitsAtBackslash: backslash,
                                cutsParameters: parameters, mergesSlashes: $0)
                        }
                    }
                }
            }
        }
    }()

    /// - Parameter path: empty, or beginning with `/`.
    /// - Returns: the path as this reader understands it, and whether its dot segments lead above its beginning.
    func read(_ path: [UInt8]) -> (path: [UInt8], escapesBase: Bool) {
        var kept: [ArraySlice<UInt8>] = []
        var escapesBase = false
        var endsInSlash = false
        let decoded = decode(path)
        for segment in decoded.dropFirst().split(omittingEmptySubsequences: false, whereSeparator: isSeparator) {
            let name = cutsParameters ? segment.prefix { $0 != UInt8(ascii: ";") } : segment
            endsInSlash = true
            if name.elementsEqual("..".utf8) {
                if kept.popLast() == nil { escapesBase = true }
            } else if !name.elementsEqual(".".utf8), !(mergesSlashes && name.isEmpty) {
                kept.append(name)
                endsInSlash = false
            }
        }
        var result: [UInt8] = []
        result.reserveCapacity(decoded.count)
        for name in kept {
            result.append(UInt8(ascii: "/"))
            result += name
        }
        if endsInSlash || result.isEmpty { result.append(UInt8(ascii: "/")) }
        return (result, escapesBase)
    }

    /// Whether some reader sees a dot segment. The reader that splits most sees each one.
    static func hasDotSegment(_ path: [UInt8]) -> Bool {
        normalized.decode(path).split(whereSeparator: normalized.isSeparator).contains { segment in
            let name = segment.prefix { $0 != UInt8(ascii: ";") }
            return name.elementsEqual(".".utf8) || name.elementsEqual("..".utf8)
        }
    }

    /// Whether the path must be read in all ways: between both views of `PathViews` there may be readers that see other segments.
    static func isDisputed(_ path: [UInt8]) -> Bool { hasDotSegment(path) || hidesSeparator(path) }

    /// Whether parameters may hide a separator: `/;a%2fb/c` is `/c` for a reader that cuts them off before it decodes (Jetty), and `/b/c`
    /// for one that decodes first.
    static func hidesSeparator(_ path: [UInt8]) -> Bool {
        let decoded = normalized.decode(path)
        return decoded.contains(UInt8(ascii: ";"))
            && decoded.count(where: { normalized.isSeparator($0) }) > path.count(where: { $0 == UInt8(ascii: "/") })
    }

    private func isSeparator(_ byte: UInt8) -> Bool {
        byte == UInt8(ascii: "/") || splitsAtBackslash && byte == UInt8(ascii: "\\")
    }

    private func decode(_ path: [UInt8]) -> [UInt8] {
        switch decoding {
        case .none: path
        case .unreserved: Self.decode(path, where: Self.isUnreserved)
        case .once: Self.decode(path, where: isDecoded)
        case .twice: Self.decode(Self.decode(path, where: isDecoded), where: isDecoded)
        }
    }

    private func isDecoded(_ byte: UInt8) -> Bool { decodesSlashes || byte != UInt8(ascii: "/") }

    /// Decodes the escapes of these bytes. A `%` without two hex digits, which a first pass may produce, stays as it
    /// is.
    private static func decode(_ path: [UInt8], where admits: (UInt8) -> Bool) -> [UInt8] {
        var result: [UInt8] = []
        result.reserveCapacity(path.count)
        var index = 0
        while index < path.count {
            if path[index] == UInt8(ascii: "%"), index + 2 < path.count,
                let high = ByteClass.hexValue(path[index + 1]), let low = ByteClass.hexValue(path[index + 2]),
                admits(high << 4 | low)
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

    static func isUnreserved(_ byte: UInt8) -> Bool {
        ByteClass.isAlphanumeric(byte) || byte == UInt8(ascii: "-") || byte == UInt8(ascii: ".")
            || byte == UInt8(ascii: "_") || byte == UInt8(ascii: "~")
    }
}
