/// The hosts that requests on a listener may name: name and port (http-rules.md 4.2, threats.md T2).
package struct AllowedHosts: Sendable {
    /// Lower-case `host:port` values; nil allows any (a unix socket).
    private let values: [[UInt8]]?
    /// Also any IP literal with any port: the kubelet probes health by the pod's address, other clients use a mapped
    /// port. A web page that uses DNS rebinding needs a name.
    private let allowsLiterals: Bool

    package enum Decision: Equatable, Sendable { case allowed, unknown, malformed }

    /// - Parameters:
    ///   - allowsLiterals: any IP literal is allowed as well.
    ///   - defaultPort: of the listener's scheme.
    package init(_ values: [String]?, allowsLiterals: Bool = false, defaultPort: UInt16 = 80) {
        // `Host: name` means the default port, so `name:80` allows both.
        let ending = ":\(defaultPort)"
        self.values = values?.flatMap { value -> [[UInt8]] in
            let bytes = Array(value.utf8).map(ByteClass.lower)
            return value.hasSuffix(ending) ? [bytes, Array(bytes.dropLast(ending.utf8.count))] : [bytes]
        }
        self.allowsLiterals = allowsLiterals
    }

    /// Checks a `Host` value or the authority of an absolute target.
    package func check(_ value: Bytes) -> Decision {
        if let values {
            for allowed in values where allowed.count == value.count {
                if allowed.withUnsafeBufferPointer({ $0.equalsIgnoringCase(value) }) { return .allowed }
            }
        }
        // A target without authority, such as that of a unix socket, has an empty `Host` (RFC 9112 §3.2).
        if values == nil, value.isEmpty { return .allowed }
        guard let (host, _) = HostValue.split(value) else { return .malformed }
        guard values != nil else { return .allowed }
        if allowsLiterals, isLiteral(value[run: host]) { return .allowed }
        return .unknown
    }

    private func isLiteral(_ host: Bytes) -> Bool {
        host[0] == UInt8(ascii: "[") || host.allSatisfy { ByteClass.isDigit($0) || $0 == UInt8(ascii: ".") }
    }
}

/// The value of a `Host` field: `host[:port]` (RFC 9110 §7.2, RFC 3986 §3.2.2).
package enum HostValue {
    /// The range of the host and the port; nil if the value is no `host[:port]` (http-rules.md 4.1).
    package static func split(_ value: Bytes) -> (host: Range<Int>, port: UInt16?)? {
        guard value.count > 0 else { return nil }
        var end = 0
        if value[0] == UInt8(ascii: "[") {
            guard let close = value.firstIndex(of: UInt8(ascii: "]")), isAddressV6(value[run: 1..<close]) else {
                return nil
            }
            end = close + 1
        } else {
            while end < value.count, value[end] != UInt8(ascii: ":") {
                guard isNameByte(value, end) else { return nil }
                end += 1
            }
            guard end > 0 else { return nil }
        }
        if end == value.count { return (0..<end, nil) }
        guard value[end] == UInt8(ascii: ":") else { return nil }
        let digits = value[run: (end + 1)..<value.count]
        guard digits.count <= 5, let port = digits.decimal, (0...65535).contains(port) else { return nil }
        return (0..<end, UInt16(port))
    }

    /// Unreserved characters, sub-delims and complete percent escapes.
    private static func isNameByte(_ value: Bytes, _ index: Int) -> Bool {
        let byte = value[index]
        if ByteClass.isAlphanumeric(byte) { return true }
        switch byte {
        case UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"), UInt8(ascii: "~"), UInt8(ascii: "!"),
            UInt8(ascii: "$"), UInt8(ascii: "&"), UInt8(ascii: "'"), UInt8(ascii: "("), UInt8(ascii: ")"),
            UInt8(ascii: "*"), UInt8(ascii: "+"), UInt8(ascii: ";"), UInt8(ascii: "="):
            return true
        case UInt8(ascii: "%"):
            return index + 2 < value.count && ByteClass.hexValue(value[index + 1]) != nil
                && ByteClass.hexValue(value[index + 2]) != nil
        default: return false
        }
    }

    /// Groups of up to four hex digits with at most one `::`, and possibly a dotted IPv4 tail.
    private static func isAddressV6(_ text: Bytes) -> Bool {
        var groups = 0
        var sawGap = false
        var index = 0
        if text.count >= 2, text[0] == UInt8(ascii: ":"), text[1] == UInt8(ascii: ":") {
            sawGap = true
            index = 2
        }
        while index < text.count {
            let start = index
            while index < text.count, ByteClass.hexValue(text[index]) != nil { index += 1 }
            if index < text.count, text[index] == UInt8(ascii: ".") {
                groups += 2
                return isAddressV4(text[run: start..<text.count]) && (sawGap ? groups < 8 : groups == 8)
            }
            guard index > start, index - start <= 4 else { return false }
            groups += 1
            guard index < text.count else { break }
            guard text[index] == UInt8(ascii: ":"), index + 1 < text.count else { return false }
            index += 1
            if text[index] == UInt8(ascii: ":") {
                guard !sawGap else { return false }
                sawGap = true
                index += 1
            }
        }
        return sawGap ? groups < 8 : groups == 8
    }

    private static func isAddressV4(_ text: Bytes) -> Bool {
        var parts = 0
        for part in text.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false) {
            guard (1...3).contains(part.count), let number = Bytes(rebasing: part).decimal, number <= 255 else {
                return false
            }
            parts += 1
        }
        return parts == 4
    }
}
