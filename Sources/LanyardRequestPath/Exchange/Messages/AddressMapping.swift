import LanyardSettings

/// Maps what an upstream says of its own addresses to the client's view, so that the client stays behind Lanyard
/// (http-rules.md 12.6): the values of `Location`, `Content-Location` and `Set-Cookie`.
struct AddressMapping {
    let route: Route
    /// The upstream is reached by TLS: its scheme is https.
    let isTLS: Bool
    /// The upstream's own `Host`.
    let authority: [UInt8]
    /// The client's `Host`, if the upstream has seen it and the route maps paths; else empty.
    let clientHost: Bytes

    /// A reference for the client: both parts, one behind the other.
    struct Reference {
        var prefix: [UInt8] = []
        let rest: Bytes

        func write(into out: inout HeadWriter) {
            if prefix.isEmpty, rest.first != UInt8(ascii: "/") { out.write(UInt8(ascii: "/")) }
            out.write(prefix)
            out.write(rest)
        }
    }

    // MARK: References

    /// A URI reference of the upstream's own origin as a path of the client's view (RFC 3986 §4.2); nil: it is not changed.
    ///
    /// It loses scheme and authority: how the client has reached Lanyard is not known when a proxy stands before it.
    func reference(_ value: Bytes) -> Reference? {
        guard value.allSatisfy(Self.isPlain), let start = pathStart(of: value) else { return nil }
        let path = value[run: start..<value.count]
        if start == 0, route.basePath == nil { return nil }
        guard let mapped = self.path(path) else { return nil }
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
        if value.hasPrefix(lowered: isTLS ? "https://" : "http://") {
            start = isTLS ? 8 : 7
        } else if value.hasPrefix(lowered: "//") {
            start = 2
        } else {
            return value.first == UInt8(ascii: "/") ? 0 : nil
        }
        let end = value[start...].firstIndex { Self.endsAuthority($0) } ?? value.count
        return isOwn(value[run: start..<end]) ? end : nil
    }

    private static func endsAuthority(_ byte: UInt8) -> Bool {
        byte == UInt8(ascii: "/") || byte == UInt8(ascii: "?") || byte == UInt8(ascii: "#")
    }

    /// The authority is that of the upstream, as it knows it: from the route's URL, or from the `Host` that it has seen.
    private func isOwn(_ found: Bytes) -> Bool {
        let bare = withoutDefaultPort(found)
        if authority.withUnsafeBufferPointer({ withoutDefaultPort($0).equalsIgnoringCase(bare) }) { return true }
        switch route.settings.host {
        case .upstream: return false
        case .client: return !clientHost.isEmpty && withoutDefaultPort(clientHost).equalsIgnoringCase(bare)
        case .value: return route.hostValue.withUnsafeBufferPointer { withoutDefaultPort($0).equalsIgnoringCase(bare) }
        }
    }

    private func withoutDefaultPort(_ authority: Bytes) -> Bytes {
        let port: StaticString = isTLS ? ":443" : ":80"
        let length = authority.count - port.utf8CodeUnitCount
        guard length > 0, authority[run: length..<authority.count].equals(lowered: port) else { return authority }
        return authority[run: 0..<length]
    }

    /// A path of the upstream, with query and fragment, as the client has to ask for it; nil: the route does not lead there.
    private func path(_ path: Bytes) -> Reference? {
        guard let base = route.basePath else { return Reference(rest: path) }
        guard path.count >= base.count,
            base.withUnsafeBufferPointer({ path[run: 0..<base.count].elementsEqual($0) })
        else { return nil }
        let rest = path[run: base.count..<path.count]
        guard rest.first.map(Self.endsAuthority) ?? true else { return nil }
        return Reference(prefix: route.prefix.bytes, rest: rest)
    }

    // MARK: Cookies

    /// Writes the value of a `Set-Cookie` line for the client (RFC 6265 §4.1): without a `Domain` that is the upstream's own
    /// host, so that the cookie is the host's that the client knows, and with a `Path` of the client's view.
    func writeCookie(_ value: Bytes, into out: inout HeadWriter) {
        var attributes = CookieAttributes(value)
        out.write(attributes.pair)
        while let attribute = attributes.next() {
            switch treatment(of: attribute, in: attributes.pair) {
            case .dropped: break
            case .copied:
                out.write("; " as StaticString)
                out.write(attribute.whole)
            case .mapped(let path):
                out.write("; Path=" as StaticString)
                path.write(into: &out)
            }
        }
    }

    private enum Treatment {
        case copied, dropped
        case mapped(Reference)
    }

    /// Whether the cookie has an attribute that `writeCookie` changes.
    func changesCookie(_ value: Bytes) -> Bool {
        var attributes = CookieAttributes(value)
        while let attribute = attributes.next() {
            switch treatment(of: attribute, in: attributes.pair) {
            case .copied: break
            case .dropped, .mapped: return true
            }
        }
        return false
    }

    private func treatment(of attribute: CookieAttributes.Attribute, in pair: Bytes) -> Treatment {
        if attribute.name.equals(lowered: "domain") { return isOwnHost(attribute.value) ? .dropped : .copied }
        // Its path must stay `/` (RFC 6265bis §4.1.3.2).
        guard attribute.name.equals(lowered: "path"), route.basePath != nil, !pair.hasPrefix(lowered: "__host-"),
            attribute.value.allSatisfy(Self.isPlain), let path = path(attribute.value)
        else { return .copied }
        return .mapped(path)
    }

    private func isOwnHost(_ domain: Bytes) -> Bool {
        // A leading dot says nothing (RFC 6265 §5.2.3).
        let name = domain.first == UInt8(ascii: ".") ? domain[run: 1..<domain.count] : domain
        guard !name.isEmpty else { return false }
        if authority.withUnsafeBufferPointer({ $0.withoutPort.equalsIgnoringCase(name) }) { return true }
        switch route.settings.host {
        case .upstream, .client: return false
        case .value: return route.hostValue.withUnsafeBufferPointer { $0.withoutPort.equalsIgnoringCase(name) }
        }
    }
}

/// The parts of a `Set-Cookie` value between its semicolons, in order.
private struct CookieAttributes {
    struct Attribute {
        /// Without white space around it.
        let whole: Bytes
        let name: Bytes
        /// Empty without `=`.
        let value: Bytes
    }

    /// Name and value of the cookie.
    let pair: Bytes
    private var rest: Bytes

    init(_ value: Bytes) {
        let end = value.firstIndex(of: UInt8(ascii: ";")) ?? value.count
        pair = value[run: 0..<end].trimmed
        rest = value[run: end..<value.count]
    }

    mutating func next() -> Attribute? {
        guard !rest.isEmpty else { return nil }
        let end = rest[1...].firstIndex(of: UInt8(ascii: ";")) ?? rest.count
        let whole = rest[run: 1..<end].trimmed
        rest = rest[run: end..<rest.count]
        let equals = whole.firstIndex(of: UInt8(ascii: "=")) ?? whole.count
        let value = whole[run: min(equals + 1, whole.count)..<whole.count]
        return Attribute(whole: whole, name: whole[run: 0..<equals].trimmed, value: value.trimmed)
    }
}

extension Bytes {
    /// Two slashes, or a slash and a backslash.
    fileprivate var startsLikeAuthority: Bool {
        count > 1 && self[0] == UInt8(ascii: "/") && (self[1] == UInt8(ascii: "/") || self[1] == UInt8(ascii: "\\"))
    }

    /// An authority without its port. The colons of an IPv6 address stand in brackets.
    fileprivate var withoutPort: Bytes {
        guard let colon = lastIndex(of: UInt8(ascii: ":")), !self[colon...].contains(UInt8(ascii: "]")) else {
            return self
        }
        return self[run: 0..<colon]
    }
}
