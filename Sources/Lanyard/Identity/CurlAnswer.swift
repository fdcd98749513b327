/// A complete response of an identity service, with any status.
struct CurlResponse: Sendable {
    /// The fields that Lanyard reads; each is printable ASCII of at most 2 KiB.
    struct Fields: Sendable {
        var contentType: String?
        var retryAfter: String?
        var date: String?
        var location: String?
    }

    var status: Int
    var fields: Fields
    var body: Secret

    /// `application/json`, with any parameters: some servers add a charset.
    var isJSON: Bool {
        guard let type = fields.contentType?.lowercased(), type.hasPrefix("application/json") else { return false }
        let rest = type.dropFirst("application/json".count)
        return rest.isEmpty || rest.first == ";" || rest.first == " "
    }

    /// The service's clock.
    var serverDate: WallTime? { fields.date.flatMap(HTTPDate.read) }

    /// `Retry-After` (RFC 9110 §10.2.3) as seconds or a date. A date counts from the response's own `Date`, if present, because both come
    /// from the same clock. Never negative.
    func retryAfter(now: WallTime) -> Duration? {
        guard let text = fields.retryAfter else { return nil }
        if text.utf8.allSatisfy({ 0x30...0x39 ~= $0 }) { return Int64(text.prefix(9)).map { .seconds($0) } }
        return HTTPDate.read(text).map { max($0 - (serverDate ?? now), .zero) }
    }
}
