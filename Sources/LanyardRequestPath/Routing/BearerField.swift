import LanyardFoundations
import LanyardSettings

/// The field of a route that carries the access token; by default `Authorization: Bearer …` (RFC 6750 §2.1).
///
/// All that writes the field or recognises it asks this type: the request's head, the client's own field
/// (`client_authorization`), look-alikes (http-forwarding.md 10.4) and trailers. Two other subjects have files of their own:
/// `BearerToken` knows the characters of a token, and `AdminAccessPolicy` reads the bearer token of an admin call.
///
/// The methods are inlined: a call would copy the value out of its route and retain three arrays.
struct BearerField: Sendable {
    /// The field's name as configured.
    let name: [UInt8]
    /// The field up to the token: `Authorization: Bearer `.
    private let start: FieldStart
    /// What stands behind the token.
    private let suffix: [UInt8]

    init(_ settings: RouteSettings) {
        name = Array(settings.injectHeader.utf8)
        start = FieldStart(settings.injectHeader, settings.injectPrefix)
        suffix = Array(settings.injectSuffix.utf8)
    }

    /// The field is `Authorization`.
    var isAuthorization: Bool { name.withUnsafeBufferPointer { $0.equals(lowered: "authorization") } }

    /// A field of this name is the bearer field. ASCII case is ignored.
    @inline(__always)
    func isNamed(_ other: Bytes) -> Bool { name.withUnsafeBufferPointer { $0.equalsIgnoringCase(other) } }

    /// An upstream may not tell a field of this name from the bearer field (security.md T9).
    @inline(__always)
    func resembles(_ other: Bytes) -> Bool { name.withUnsafeBufferPointer { $0.resembles(other) } }

    /// Writes the whole field.
    @inline(__always)
    func write(_ token: Secret, into out: inout some HeadSink & ~Copyable) {
        out.beginField(start)
        out.write(token)
        if !suffix.isEmpty { out.write(suffix) }
        out.endField()
    }
}
