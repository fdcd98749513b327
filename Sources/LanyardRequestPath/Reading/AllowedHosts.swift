import LanyardFoundations

/// The hosts that requests on a listener may name: name and port (http-requests.md 4.2, security.md T2).
package struct AllowedHosts: Sendable {
    private struct Entry: Sendable {
        /// In canonical form.
        let host: [UInt8]
        let port: UInt16
    }

    /// nil allows any (a unix socket).
    private let entries: [Entry]?
    /// Each entry's `host:port`, and `host` with the default port: what nearly all requests have.
    private let spellings: Spellings
    /// Also any IP literal with any port: the kubelet probes health by the pod's address, other clients use a mapped
    /// port. A web page that uses DNS rebinding needs a name.
    private let allowsLiterals: Bool
    private let defaultPort: UInt16

    package enum Decision: Equatable, Sendable { case allowed, unknown, malformed }

    /// - Parameters:
    ///   - values: `host` or `host:port`. One that is none allows nothing.
    ///   - allowsLiterals: any IP literal is allowed as well.
    ///   - defaultPort: of the listener's scheme.
    package init(_ values: [String]?, allowsLiterals: Bool = false, defaultPort: UInt16 = 80) {
        let entries = values?.compactMap { Self.entry($0, defaultPort: defaultPort) }
        self.entries = entries
        spellings = Spellings(
            (entries ?? []).flatMap { entry in
                let whole = entry.host + Array(":\(entry.port)".utf8)
                return entry.port == defaultPort ? [whole, entry.host] : [whole]
            })
        self.allowsLiterals = allowsLiterals
        self.defaultPort = defaultPort
    }

    private static func entry(_ value: String, defaultPort: UInt16) -> Entry? {
        Array(value.utf8).withUnsafeBufferPointer { value in
            guard let (range, port) = HostValue.split(value) else { return nil }
            return HostValue.withCanonical(value[run: range]) { canonical in
                guard let canonical else { return nil }
                return Entry(host: Array(canonical), port: port ?? defaultPort)
            }
        }
    }

    /// Checks a `Host` value or the authority of an absolute target.
    package func check(_ value: Bytes) -> Decision {
        if spellings.contain(value) { return .allowed }
        // A target without authority, such as that of a unix socket, has an empty `Host` (RFC 9112 §3.2).
        if entries == nil, value.isEmpty { return .allowed }
        guard let (host, port) = HostValue.split(value) else { return .malformed }
        guard let entries else { return .allowed }
        return HostValue.withCanonical(value[run: host]) { canonical in
            guard let canonical else { return .unknown }
            let port = port ?? defaultPort
            if entries.contains(where: { $0.port == port && $0.host.elementsEqual(canonical) }) { return .allowed }
            return allowsLiterals && HostValue.isLiteral(canonical) ? .allowed : .unknown
        }
    }

    /// Texts one behind the other, each behind the two bytes of its length: one array, where an array of arrays would cost a
    /// retain for each text.
    private struct Spellings: Sendable {
        private let bytes: [UInt8]

        /// - Parameter texts: longer ones than a name can be are left out.
        init(_ texts: [[UInt8]]) {
            bytes = texts.filter { $0.count <= UInt16.max }.flatMap { text in
                [UInt8(truncatingIfNeeded: text.count), UInt8(text.count >> 8)] + text
            }
        }

        /// Whether one of the texts is `value`, without regard to ASCII case.
        func contain(_ value: Bytes) -> Bool {
            bytes.withUnsafeBufferPointer { all in
                var place = 0
                while place < all.count {
                    let count = Int(all[place]) | Int(all[place + 1]) << 8
                    place += 2
                    if count == value.count, all[run: place..<place + count].equalsIgnoringCase(value) { return true }
                    place += count
                }
                return false
            }
        }
    }
}

/// The value of a `Host` field: `host[:port]` (RFC 9110 §7.2, RFC 3986 §3.2.2).
package enum HostValue {
    /// The range of the host and the port; nil if the value is no `host[:port]` (http-requests.md 4.1).
    package static func split(_ value: Bytes) -> (host: Range<Int>, port: UInt16?)? {
        guard value.count > 0 else { return nil }
        var end = 0
        if value[0] == UInt8(ascii: "[") {
            guard let close = value.firstIndex(of: UInt8(ascii: "]")) else { return nil }
            end = close + 1
            // An address has a form if it is one.
            guard withCanonical(value[run: 0..<end], { $0 != nil }) else { return nil }
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

    /// Calls `body` with the canonical form of a host that `split` has found; nil: it has none, so it is none that can be configured.
    @inline(__always)
    package static func withCanonical<Result>(_ host: Bytes, _ body: (Bytes?) -> Result) -> Result {
        withUnsafeTemporaryAllocation(of: UInt8.self, capacity: CanonicalHost.bytesMax) { room in
            body(CanonicalHost.write(host, to: room).map { Bytes(room)[run: 0..<$0] })
        }
    }

    /// Whether two values name the same host and port. A missing port is the default port.
    static func areEqual(_ left: Bytes, _ right: Bytes, defaultPort: UInt16) -> Bool {
        guard let a = split(left), let b = split(right), (a.port ?? defaultPort) == (b.port ?? defaultPort) else {
            return false
        }
        if left[run: a.host].equalsIgnoringCase(right[run: b.host]) { return true }
        return withCanonical(left[run: a.host]) { one in
            withCanonical(right[run: b.host]) { other in
                guard let one, let other else { return false }
                return one.elementsEqual(other)
            }
        }
    }

    /// Whether a canonical form means this machine: `localhost`, a name below it, 127.0.0.0/8 or ::1. Browsers trust these hosts without
    /// TLS (W3C Secure Contexts 3.1).
    static func isLoopback(_ canonical: Bytes) -> Bool {
        if canonical.isEqual(to: "[::1]") || canonical.isEqual(to: "localhost") { return true }
        if isLiteral(canonical) { return canonical.hasPrefix(lowered: "127.") }
        let suffix: StaticString = ".localhost"
        let length = suffix.utf8CodeUnitCount
        return canonical.count > length
            && canonical[run: (canonical.count - length)..<canonical.count].isEqual(to: suffix)
    }

    /// Whether a canonical form is that of an IP address.
    static func isLiteral(_ canonical: Bytes) -> Bool {
        if canonical.first == UInt8(ascii: "[") { return true }
        var parts = 0
        for part in canonical.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false) {
            guard (1...3).contains(part.count), part.count == 1 || part.first != UInt8(ascii: "0"),
                let number = Bytes(rebasing: part).decimal, number <= 255
            else { return false }
            parts += 1
        }
        return parts == 4
    }
}

/// A web origin: scheme, host and port (RFC 6454 section 4), in canonical form.
struct WebOrigin: Equatable, Sendable {
    private let scheme: [UInt8]
    private let host: [UInt8]
    /// -1: the scheme has no default port that is known here, and none is given.
    private let port: Int

    /// - Parameter value: `scheme://host[:port]`. nil: it is none, such as `null`.
    init?(_ value: Bytes) {
        guard let colon = value.firstIndex(of: UInt8(ascii: ":")), colon > 0, value.count > colon + 3,
            value[colon + 1] == UInt8(ascii: "/"), value[colon + 2] == UInt8(ascii: "/")
        else { return nil }
        let scheme = value[run: 0..<colon]
        let authority = value[run: (colon + 3)..<value.count]
        guard let (range, port) = HostValue.split(authority) else { return nil }
        let host = HostValue.withCanonical(authority[run: range]) { $0.map { Array($0) } }
        guard let host else { return nil }
        self.scheme = scheme.map(ByteClass.lower)
        self.host = host
        self.port = port.map(Int.init) ?? Self.defaultPort(of: scheme)
    }

    private static func defaultPort(of scheme: Bytes) -> Int {
        if scheme.equals(lowered: "http") || scheme.equals(lowered: "ws") { return 80 }
        return scheme.equals(lowered: "https") || scheme.equals(lowered: "wss") ? 443 : -1
    }
}
