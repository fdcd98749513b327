/// Checks HTTP fields, targets and methods of a configuration (RFC 9110 §5.1, §5.5, §9.1).
package enum FieldText {
    /// Fields for framing, routing or one connection only. Lanyard writes or drops them itself (http-forwarding.md 10.1, 10.2).
    private static let reserved: Set<String> = [
        "connection", "content-length", "expect", "host", "http2-settings", "keep-alive", "proxy-authenticate",
        "proxy-authorization", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade", "via",
    ]

    /// Whether `text` is a field name or method: token characters.
    package static func isToken(_ text: String) -> Bool {
        !text.isEmpty && text.utf8.count <= 256
            && text.utf8.allSatisfy { byte in
                switch byte {
                case 48...57, 65...90, 97...122: true
                default: "!#$%&'*+-.^_`|~".utf8.contains(byte)
                }
            }
    }

    /// The methods of RFC 9110 §9.3, PATCH, and those of WebDAV and its extensions that clients send.
    private static let knownMethods: Set<String> = [
        "ACL", "BIND", "CHECKIN", "CHECKOUT", "CONNECT", "COPY", "DELETE", "GET", "HEAD", "LINK", "LOCK", "MERGE",
        "MKACTIVITY", "MKCALENDAR", "MKCOL", "MOVE", "OPTIONS", "PATCH", "POST", "PROPFIND", "PROPPATCH", "PURGE",
        "PUT",
        "QUERY", "REBIND", "REPORT", "SEARCH", "TRACE", "UNBIND", "UNLINK", "UNLOCK",
    ]

    /// Words that mean every method in other programs. As methods of a denial they would deny nothing.
    private static let wildcards: Set<String> = ["*", "ANY", "ALL"]

    /// Methods that are refused before a route is looked for (http-requests.md 1.9).
    package static let refusedMethods: Set<String> = ["CONNECT", "TRACE"]

    /// Whether `text` is a method that a client may send. Methods are case-sensitive (RFC 9110 §9.1): `get` is none, and a route or a
    /// denial of it would match nothing.
    package static func isMethod(_ text: String) -> Bool {
        let upper = text.uppercased()
        return isToken(text) && !wildcards.contains(upper)
            && (knownMethods.contains(text) || !knownMethods.contains(upper))
    }

    /// Whether `text` is a protocol name, with or without a version (RFC 9110 §7.8), that does not carry further HTTP requests.
    ///
    /// Such requests would pass unchecked and with the user's identity (http-forwarding.md 15.2).
    package static func isUpgrade(_ text: String) -> Bool {
        let parts = text.split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
        return parts.allSatisfy(isToken) && !text.contains("*")
            && !["h2", "h2c", "h3", "http", "https", "tls"].contains(parts[0].lowercased())
    }

    /// Whether `text` is a field value: no control characters, no blank at either end.
    package static func isValue(_ text: String) -> Bool {
        text.utf8.allSatisfy { $0 >= 32 && $0 != 127 } && text.utf8.first != 32 && text.utf8.last != 32
    }

    /// Whether a route must not set or inject a field of this name: a reserved name or `Lanyard-…`.
    ///
    /// Look-alikes count, too: each byte that is not a letter or digit is read as `-`.
    package static func isReserved(_ name: String) -> Bool {
        let plain = canonical(name)
        return reserved.contains(plain) || plain.hasPrefix("lanyard-")
    }

    /// Fields that a browser sends by itself, or that a page may set without the browser asking first (W3C Fetch, CORS-safelisted request
    /// headers).
    private static let sentByPages: Set<String> = [
        "accept", "accept-charset", "accept-encoding", "accept-language", "cache-control", "content-language",
        "content-type", "cookie", "date", "dnt", "if-modified-since", "if-none-match", "origin", "pragma", "priority",
        "range", "referer", "upgrade-insecure-requests", "user-agent",
    ]

    /// Whether a listener can ask for a field of this name: each request that carries it was made by a program that knows the listener.
    package static func canBeRequired(_ name: String) -> Bool {
        let plain = canonical(name)
        return isToken(name) && !reserved.contains(plain) && !sentByPages.contains(plain) && !plain.hasPrefix("sec-")
    }

    /// A name as upstreams see it that turn field names into variables.
    package static func canonical(_ name: String) -> String {
        String(
            decoding: name.lowercased().utf8.map { (48...57).contains($0) || (97...122).contains($0) ? $0 : 45 },
            as: UTF8.self)
    }

    /// Whether `text` is a path prefix that all readers take in the same way.
    ///
    /// It begins with `/` and is visible ASCII, without query, fragment, backslash, empty or dot segments. A trailing `/` is allowed.
    package static func isPathPrefix(_ text: String) -> Bool {
        guard text.utf8.first == 47, text.utf8.count <= 1024,
            text.utf8.allSatisfy({ $0 > 32 && $0 < 127 && !"?#\\\"<>^`{|}".utf8.contains($0) })
        else { return false }
        let bytes = Array(text.utf8)
        let escapes = bytes.indices.filter { bytes[$0] == UInt8(ascii: "%") }
        guard escapes.allSatisfy({ $0 + 2 < bytes.count && isHex(bytes[$0 + 1]) && isHex(bytes[$0 + 2]) }) else {
            return false
        }
        let segments = text.dropFirst().split(separator: "/", omittingEmptySubsequences: false)
        return !segments.dropLast().contains("") && !segments.contains { $0 == "." || $0 == ".." }
    }

    /// Whether `text` is empty, or a question mark and a query (RFC 3986 §3.4).
    package static func isQuery(_ text: String) -> Bool {
        let bytes = Array(text.utf8)
        guard bytes.first.map({ $0 == UInt8(ascii: "?") }) ?? true, bytes.count <= 1024,
            bytes.allSatisfy({ $0 > 32 && $0 < 127 && !"#\\\"<>^`{|}".utf8.contains($0) })
        else { return false }
        return bytes.indices.allSatisfy { place in
            bytes[place] != UInt8(ascii: "%")
                || (place + 2 < bytes.count && isHex(bytes[place + 1]) && isHex(bytes[place + 2]))
        }
    }

    private static func isHex(_ byte: UInt8) -> Bool {
        (48...57).contains(byte) || (65...70).contains(byte) || (97...102).contains(byte)
    }

    /// Whether `text` is an origin as browsers send it: `scheme://host[:port]` or `null`.
    package static func isOrigin(_ text: String) -> Bool {
        if text == "null" { return true }
        guard let colon = text.utf8.firstIndex(of: 58), text[colon...].hasPrefix("://") else { return false }
        let scheme = text[..<colon].lowercased()
        let authority = String(text[colon...].dropFirst(3))
        return scheme.utf8.first.map { (97...122).contains($0) } == true
            && scheme.utf8.allSatisfy { (97...122).contains($0) || (48...57).contains($0) || "+-.".utf8.contains($0) }
            && AddressText.hostAndPort(authority) != nil
    }

    /// `inject.format` split at its only `{token}`.
    package static func cut(format: String) -> (prefix: String, suffix: String)? {
        let marker = Array("{token}".utf8)
        let bytes = Array(format.utf8)
        let places = bytes.indices.filter { bytes[$0...].starts(with: marker) }
        guard places.count == 1, isValue(format) else { return nil }
        return (
            String(decoding: bytes[..<places[0]], as: UTF8.self),
            String(decoding: bytes[(places[0] + marker.count)...], as: UTF8.self)
        )
    }
}
