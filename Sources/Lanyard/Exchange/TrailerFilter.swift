/// Which fields of a response's trailer section go on (http-rules.md 6.6, RFC 9110 §6.5.1).
///
/// A client that merged one of the others into the head would be told of another length, place, user or freshness than the head said.
enum TrailerFilter {
    private static let refused: [StaticString] = [
        // Framing.
        "content-length", "transfer-encoding", "trailer",
        // Routing, control and conditions.
        "host", "via", "location", "max-forwards", "expect", "range", "retry-after", "allow", "alt-svc",
        "if-match", "if-none-match", "if-modified-since", "if-unmodified-since", "if-range",
        // The connection.
        "connection", "keep-alive", "proxy-connection", "te", "upgrade", "http2-settings",
        // Authentication.
        "authorization", "www-authenticate", "authentication-info", "proxy-authenticate", "proxy-authorization",
        "proxy-authentication-info",
        // Cookies.
        "cookie", "cookie2", "set-cookie", "set-cookie2", "clear-site-data",
        // Caching.
        "age", "cache-control", "expires", "date", "pragma", "vary", "warning", "cdn-cache-control",
        // Content; digests of it are what trailers are for.
        "content-type", "content-encoding", "content-range", "content-language", "content-location",
        "content-disposition",
    ]

    /// Whether the field may be forwarded. Look-alikes are judged as what they look like (http-rules.md 10.4).
    static func passes(_ name: Bytes, on route: Route) -> Bool {
        let read = FieldName.of(canonical: name)
        if read == .lanyard || read.isForwarding { return false }
        if route.injectName.withUnsafeBufferPointer({ LookAlikes.resembles(name, $0) }) { return false }
        return !refused.contains { word in
            LookAlikes.resembles(name, Bytes(start: word.utf8Start, count: word.utf8CodeUnitCount))
        }
    }
}
