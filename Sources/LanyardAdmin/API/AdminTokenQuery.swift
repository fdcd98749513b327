import LanyardRequestPath
import LanyardSettings

/// The query of `GET /v1/users/{user}/token`: which of the user's access tokens. Pure.
enum AdminTokenQuery {
    private static let form =
        "the query takes audience= once, resource= for each resource, and scope= once, with spaces between scopes"

    /// Reads `audience=A&resource=R&scope=S`, in the form of RFC 6749 appendix B: a space is `+` or `%20`.
    ///
    /// - Throws: `invalid` with what may stand there.
    static func read(_ query: Bytes) throws(AdminCall.PathError) -> TokenVariant {
        var audience: String?
        var scopes: Set<String>?
        var resources: Set<String> = []
        for part in query.split(separator: UInt8(ascii: "&"), omittingEmptySubsequences: false) {
            let halves = part.split(separator: UInt8(ascii: "="), maxSplits: 1, omittingEmptySubsequences: false)
            guard halves.count == 2, let value = text(halves[1]), !value.isEmpty else { throw .invalid(form) }
            switch String(decoding: halves[0], as: UTF8.self) {
            case "audience" where audience == nil: audience = value
            case "resource": resources.insert(value)
            case "scope" where scopes == nil: scopes = Set(value.split(separator: " ").map(String.init))
            default: throw .invalid(form)
            }
        }
        let variant = TokenVariant(audience: audience, resources: resources, scopes: scopes ?? [])
        guard variant != .plain else { throw .invalid(form) }
        return variant
    }

    private static func text(_ encoded: Slice<Bytes>) -> String? {
        let plus = UInt8(ascii: "+"), space = UInt8(ascii: " ")
        return PercentEncoding.decode(String(decoding: encoded.map { $0 == plus ? space : $0 }, as: UTF8.self))
    }
}
