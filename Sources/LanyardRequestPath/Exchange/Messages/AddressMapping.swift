import LanyardSettings

/// Maps what an upstream says of its own addresses to client-side addresses, so that the client stays behind Lanyard
/// (http-forwarding.md 12.6): the values of `Location`, `Link`, `Refresh`, `Set-Cookie` and of other fields with a reference.
struct AddressMapping {
    /// The fields that are mapped, by the form of their value.
    enum Field {
        /// `Location` and `Content-Location`: one URI reference, which clients resolve.
        case location
        /// One URI reference, which clients may take for a URL.
        case reference
        /// `Link`: references in angle brackets and in `anchor` (RFC 8288).
        case links
        /// `Refresh`: seconds and a reference.
        case refresh
        case cookie
    }

    let route: Route
    /// The upstream is reached by TLS: its scheme is https.
    let isTLS: Bool
    /// The client is reached by TLS.
    let isClientTLS: Bool
    /// The upstream's own `Host`.
    let authority: [UInt8]
    /// The client's `Host`; empty: it has sent none.
    let clientHost: Bytes

    /// A reference for the client: its parts, one behind the other.
    struct Reference {
        /// What stands before the client's `Host`; nil: the reference is a path.
        var scheme: StaticString?
        var host: Bytes?
        var prefix: [UInt8] = []
        let rest: Bytes

        private var lacksSlash: Bool { prefix.isEmpty && rest.first != UInt8(ascii: "/") }

        var count: Int {
            (scheme?.utf8CodeUnitCount ?? 0) + (host?.count ?? 0) + prefix.count + rest.count + (lacksSlash ? 1 : 0)
        }

        func write(into out: inout some ByteSink & ~Copyable) {
            if let scheme, let host {
                out.write(scheme)
                out.write(host)
            }
            if lacksSlash { out.write(UInt8(ascii: "/")) }
            out.write(prefix)
            out.write(rest)
        }
    }

    // MARK: References

    /// A URI reference of the upstream's own origin as a client-side path (RFC 3986 §4.2); nil: it is not changed.
    ///
    /// It loses scheme and authority: how the client has reached Lanyard is not known when a proxy stands before it.
    ///
    /// - Parameter keepsForm: a URL becomes a client-side one: programs use it as it is, without what it is relative to.
    func reference(_ value: Bytes, keepsForm: Bool = false) -> Reference? {
        guard value.allSatisfy(Self.isPlain), let start = pathStart(of: value) else { return nil }
        let path = value[run: start..<value.count]
        if start == 0, route.basePath == nil { return nil }
        guard var mapped = self.path(path) else { return nil }
        if keepsForm, start > 0, !clientHost.isEmpty {
            mapped.scheme = value.first == UInt8(ascii: "/") ? "//" : isClientTLS ? "https://" : "http://"
            mapped.host = clientHost
            return mapped
        }
        // A path that begins with two slashes would be read as another host's name (RFC 3986 §4.2), in browsers also one
        // with a backslash.
        if mapped.prefix.isEmpty, mapped.rest.startsLikeAuthority { return nil }
        return mapped
    }

    /// False for a tab, another control byte and a backslash: browsers remove the first two and read the last as a slash, so a path that
    /// stays below its prefix for Lanyard would be another host's for them (WHATWG URL, "basic URL parser").
    private static func isPlain(_ byte: UInt8) -> Bool { byte >= 0x20 && byte != 0x7f && byte != UInt8(ascii: "\\") }

    /// Where the path begins in a reference of the upstream's own origin; nil: it is another one's, or relative to the
    /// request's path.
    private func pathStart(of value: Bytes) -> Int? {
        var start = 0
        // A server behind a TLS terminator names itself by the scheme that it is asked by.
        var isPlainScheme = !isTLS
        if value.hasPrefix(lowered: isTLS ? "https://" : "http://") {
            start = isTLS ? 8 : 7
        } else if isTLS, value.hasPrefix(lowered: "http://") {
            (start, isPlainScheme) = (7, true)
        } else if value.hasPrefix(lowered: "//") {
            start = 2
        } else {
            return value.first == UInt8(ascii: "/") ? 0 : nil
        }
        let end = value[start...].firstIndex { Self.endsAuthority($0) } ?? value.count
        return isOwn(value[run: start..<end], isPlainScheme: isPlainScheme) ? end : nil
    }

    private static func endsAuthority(_ byte: UInt8) -> Bool {
        byte == UInt8(ascii: "/") || byte == UInt8(ascii: "?") || byte == UInt8(ascii: "#")
    }

    /// The authority is that of the upstream, as it knows it: from the route's URL, or from the `Host` that it has seen.
    ///
    /// - Parameter isPlainScheme: it stands behind `http://`.
    private func isOwn(_ found: Bytes, isPlainScheme: Bool) -> Bool {
        let found = Authority(found, defaultPort: isPlainScheme ? 80 : 443)
        if authority.withUnsafeBufferPointer({ isSame(found, $0, isPlainScheme) }) { return true }
        switch route.settings.host {
        case .upstream: return false
        case .client: return !clientHost.isEmpty && isSame(found, clientHost, isPlainScheme)
        case .value: return route.hostValue.withUnsafeBufferPointer { isSame(found, $0, isPlainScheme) }
        }
    }

    private func isSame(_ found: Authority?, _ own: Bytes, _ isPlainScheme: Bool) -> Bool {
        guard let found, let own = Authority(own, defaultPort: isTLS ? 443 : 80), found.hasHost(of: own) else {
            return false
        }
        // `http://` in front of a TLS upstream's host: the same port, or both the default ones.
        return found.port == own.port || isTLS && isPlainScheme && found.port == 80 && own.port == 443
    }

    /// A path of the upstream, with query and fragment, as the client has to ask for it; nil: the route does not lead there.
    private func path(_ path: Bytes) -> Reference? {
        guard let base = route.basePath else { return Reference(rest: path) }
        guard path.count >= base.count,
            base.withUnsafeBufferPointer({ path[run: 0..<base.count].elementsEqual($0) })
        else { return nil }
        let rest = path[run: base.count..<path.count]
        guard rest.first.map(Self.endsAuthority) ?? true, !Self.leavesBase(rest) else { return nil }
        return Reference(prefix: route.prefix.bytes, rest: rest)
    }

    /// Dot segments lead out of the route's path: below its prefix the client would come to another route (RFC 3986 §5.2.4).
    private static func leavesBase(_ rest: Bytes) -> Bool {
        let end = rest.firstIndex { $0 == UInt8(ascii: "?") || $0 == UInt8(ascii: "#") } ?? rest.count
        var (start, depth) = (0, 0)
        while start < end {
            let next = rest[(start + 1)..<end].firstIndex(of: UInt8(ascii: "/")) ?? end
            switch dotCount(rest[run: (start + 1)..<next]) {
            case 1: break
            case 2: depth -= 1
            default: depth += 1
            }
            if depth < 0 { return true }
            start = next
        }
        return false
    }

    /// The dots of a segment that has nothing else, each perhaps as `%2e`, which clients read as one; nil: it has something else.
    private static func dotCount(_ segment: Bytes) -> Int? {
        var (place, count) = (0, 0)
        while place < segment.count {
            if segment[place] == UInt8(ascii: ".") {
                place += 1
            } else if segment.count - place >= 3, segment[run: place..<(place + 3)].equals(lowered: "%2e") {
                place += 3
            } else {
                return nil
            }
            count += 1
        }
        return count
    }

    // MARK: Values with references

    /// What is written in place of a value.
    enum Change: Equatable { case none, mapped, dropped }

    /// By how many bytes the mapped values of one head may still make it longer. Thousands of short references would otherwise become as
    /// many copies of the route's path.
    struct Growth {
        private var left = 64 << 10

        /// - Returns: false: the value is too long for what is left.
        mutating func take(_ bytes: Int) -> Bool {
            guard bytes <= left else { return false }
            left -= max(bytes, 0)
            return true
        }
    }

    /// What `write` does to a value of a field that is mapped.
    ///
    /// - Parameter growth: of the head.
    func change(of value: Bytes, _ field: Field, _ growth: inout Growth) -> Change {
        var added: Int?
        switch field {
        case .location: added = reference(value).map { $0.count - value.count }
        case .reference: added = reference(value, keepsForm: true).map { $0.count - value.count }
        case .cookie: added = CookieMapping(value, self)?.growth
        case .links, .refresh:
            forEachReference(in: value, field) { range, mapped in added = (added ?? 0) + mapped.count - range.count }
        }
        guard let added else { return .none }
        return growth.take(added) ? .mapped : .dropped
    }

    /// Writes a value that `change` maps.
    func write(_ value: Bytes, _ field: Field, into out: inout some ByteSink & ~Copyable) {
        switch field {
        case .location: reference(value)?.write(into: &out)
        case .reference: reference(value, keepsForm: true)?.write(into: &out)
        case .cookie: CookieMapping(value, self)?.write(into: &out)
        case .links, .refresh:
            var written = 0
            forEachReference(in: value, field) { range, mapped in
                out.write(value[run: written..<range.lowerBound])
                mapped.write(into: &out)
                written = range.upperBound
            }
            out.write(value[run: written..<value.count])
        }
    }

    /// Calls `body` with each reference that is mapped, and its place.
    private func forEachReference(in value: Bytes, _ field: Field, _ body: (Range<Int>, Reference) -> Void) {
        switch field {
        case .links:
            var links = LinkReferences(value)
            while let range = links.next() {
                if let mapped = reference(value[run: range], keepsForm: true) { body(range, mapped) }
            }
        case .refresh:
            if let range = RefreshValue.reference(in: value), let mapped = reference(value[run: range]) {
                body(range, mapped)
            }
        case .location, .reference, .cookie: break
        }
    }

    // MARK: Cookies

    /// The path of a cookie as the client's; nil: it stays.
    fileprivate func cookiePath(_ value: Bytes) -> Reference? {
        guard route.basePath != nil, value.allSatisfy(Self.isPlain) else { return nil }
        return path(value)
    }

    /// The cookie can be sent back over TLS only, and the client is reached without.
    fileprivate var opensCookies: Bool { isTLS && !isClientTLS }

    fileprivate func isOwnHost(_ domain: Bytes) -> Bool {
        // A leading dot says nothing (RFC 6265 §5.2.3).
        let name = domain.first == UInt8(ascii: ".") ? domain[run: 1..<domain.count] : domain
        guard !name.isEmpty, let found = Authority(name, defaultPort: 0), !found.hasPort else { return false }
        func isSame(_ own: Bytes) -> Bool { Authority(own, defaultPort: 0).map(found.hasHost) ?? false }
        if authority.withUnsafeBufferPointer(isSame) { return true }
        switch route.settings.host {
        case .upstream, .client: return false
        case .value: return route.hostValue.withUnsafeBufferPointer(isSame)
        }
    }
}

/// A `Set-Cookie` value as the client gets it (RFC 6265 §4.1, §5.2): without a `Domain` that is the upstream's own host, so
/// that the cookie is the host's that the client knows; with a client-side `Path`; and without `Secure` where the
/// client could not send the cookie back.
private struct CookieMapping {
    private let value: Bytes
    private let path: AddressMapping.Reference?
    private let dropsDomain: Bool
    private let dropsSecure: Bool

    /// Bytes by which the path makes the value longer, at most.
    var growth: Int { path?.count ?? 0 }

    /// nil: the value stays as it is.
    init?(_ value: Bytes, _ mapping: AddressMapping) {
        self.value = value
        // Of several attributes of a name the last one counts (RFC 6265 §5.3).
        var (path, domain): (Bytes?, Bytes?) = (nil, nil)
        var isSecure = false
        var attributes = CookieAttributes(value)
        let pair = attributes.pair
        while let attribute = attributes.next() {
            switch attribute.kind {
            case .path: path = attribute.value
            case .domain: domain = attribute.value
            case .secure: isSecure = true
            case .demandsSecure, .other: break
            }
        }
        // Its path must stay `/` (RFC 6265bis §4.1.3.2).
        let isHosts = pair.hasPrefix(lowered: "__host-")
        // Such a name demands the attribute (RFC 6265bis §4.1.3).
        let demandsSecure = isHosts || pair.hasPrefix(lowered: "__secure-") || pair.hasPrefix(lowered: "__http-")
        self.path = isHosts ? nil : path.flatMap(mapping.cookiePath)
        dropsDomain = domain.map(mapping.isOwnHost) ?? false
        dropsSecure = isSecure && mapping.opensCookies && !demandsSecure
        if self.path == nil, !dropsDomain, !dropsSecure { return nil }
    }

    func write(into out: inout some ByteSink & ~Copyable) {
        var attributes = CookieAttributes(value)
        out.write(attributes.pair)
        var lastPath = -1
        if path != nil {
            while let attribute = attributes.next() {
                if attribute.kind == .path { lastPath = attribute.place }
            }
            attributes = CookieAttributes(value)
        }
        while let attribute = attributes.next() {
            switch attribute.kind {
            case .path where attribute.place == lastPath:
                out.write("; Path=" as StaticString)
                path?.write(into: &out)
            case .path where path != nil: break
            case .domain where dropsDomain: break
            case .secure where dropsSecure: break
            case .demandsSecure where dropsSecure: break
            // With its semicolon, so that the value does not grow.
            case .path, .domain, .secure, .demandsSecure, .other: out.write(attribute.whole)
            }
        }
    }
}

/// The parts of a `Set-Cookie` value between its semicolons, in order.
private struct CookieAttributes {
    enum Kind {
        case path, domain, secure
        /// `SameSite=None` and `Partitioned`: clients drop a cookie that has one of them without `Secure` (RFC 6265bis §5.7).
        case demandsSecure
        case other
    }

    struct Attribute {
        /// From its semicolon to the next one.
        let whole: Bytes
        /// Of the semicolon in the value.
        let place: Int
        let kind: Kind
        /// Empty without `=`.
        let value: Bytes
    }

    /// Name and value of the cookie.
    let pair: Bytes
    private let value: Bytes
    private var position: Int

    init(_ value: Bytes) {
        self.value = value
        position = value.firstIndex(of: UInt8(ascii: ";")) ?? value.count
        pair = value[run: 0..<position].trimmed
    }

    mutating func next() -> Attribute? {
        guard position < value.count else { return nil }
        let start = position
        position = value[(start + 1)...].firstIndex(of: UInt8(ascii: ";")) ?? value.count
        let text = value[run: (start + 1)..<position]
        let equals = text.firstIndex(of: UInt8(ascii: "=")) ?? text.count
        let name = text[run: 0..<equals].trimmed
        let content = text[run: min(equals + 1, text.count)..<text.count].trimmed
        return Attribute(
            whole: value[run: start..<position], place: start, kind: Self.kind(name, content), value: content)
    }

    private static func kind(_ name: Bytes, _ value: Bytes) -> Kind {
        if name.equals(lowered: "path") { return .path }
        if name.equals(lowered: "domain") { return .domain }
        if name.equals(lowered: "secure") { return .secure }
        let demands =
            name.equals(lowered: "partitioned") || name.equals(lowered: "samesite") && value.equals(lowered: "none")
        return demands ? .demandsSecure : .other
    }
}

extension Bytes {
    /// Two slashes, or a slash and a backslash.
    fileprivate var startsLikeAuthority: Bool {
        count > 1 && self[0] == UInt8(ascii: "/") && (self[1] == UInt8(ascii: "/") || self[1] == UInt8(ascii: "\\"))
    }
}
