import LanyardSettings

/// Decides which fields of a response's trailer section are forwarded (http-requests.md 6.6, RFC 9110 §6.5.1).
///
/// A client that merges trailers into the head would otherwise get another length, location, user or freshness than the
/// head stated.
enum TrailerFilter {
    /// Refused besides hop-by-hop fields.
    private static let refused: [StaticString] = [
        // Framing.
        "content-length", "trailer",
        // Routing, control and conditions.
        "host", "via", "location", "link", "refresh", "max-forwards", "expect", "range", "retry-after", "allow",
        "alt-svc",
        "if-match", "if-none-match", "if-modified-since", "if-unmodified-since", "if-range",
        // Authentication.
        "authorization", "www-authenticate", "authentication-info", "proxy-authentication-info",
        // Cookies.
        "cookie", "cookie2", "set-cookie", "set-cookie2", "clear-site-data",
        // Caching.
        "age", "cache-control", "expires", "date", "pragma", "vary", "warning", "cdn-cache-control",
        // Content. Digests are allowed: trailers exist for them.
        "content-type", "content-encoding", "content-range", "content-language", "content-location",
        "content-disposition",
    ]

    /// Writes the fields that may be forwarded.
    ///
    /// - Parameters:
    ///   - table: of the section, behind the `Connection` lines of its head, if there are any.
    ///   - bytes: its buffer.
    static func write(
        _ table: FieldTable, in bytes: Bytes, into out: inout some HeadSink & ~Copyable, on route: Route
    ) {
        for index in 0..<table.count {
            let name = table.name(index, in: bytes)
            guard passes(name, on: route), !ConnectionOptions.nominates(name, table.all, in: bytes) else { continue }
            out.beginField(name)
            out.write(table.value(index, in: bytes))
            out.endField()
        }
    }

    /// Whether the field may be forwarded. A look-alike is treated as the field that it resembles (http-forwarding.md 10.4).
    static func passes(_ name: Bytes, on route: Route) -> Bool {
        let read = FieldName.of(canonical: name)
        if read.isHopByHop || read == .lanyard || read.isForwarding { return false }
        // They name places of the upstream, and only those of a head are mapped (http-forwarding.md 12.6).
        if route.settings.redirects == .rewrite, read == .reference || route.isReference(name) { return false }
        if route.bearerField.resembles(name) { return false }
        return !refused.contains { word in
            name.resembles(Bytes(start: word.utf8Start, count: word.utf8CodeUnitCount))
        }
    }
}
