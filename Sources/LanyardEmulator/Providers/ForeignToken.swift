import Foundation

/// A JSON Web Token of another issuer: custom JWTs, ID tokens of Google and Apple.
struct ForeignToken {
    /// Why a token is refused. A type of its own, because a client sees the reason only with the switch `verbose_texts`.
    struct RefusalError: Error {
        let reason: String

        init(_ reason: String) { self.reason = reason }
    }

    /// Characters of a token.
    static let charactersMax = 1_000_000

    let claims: JSONValue

    /// Reads a token and verifies its signature, `exp` and `nbf` (RFC 7519 §4.1).
    ///
    /// - Parameter now: seconds since 1970.
    init(_ text: String, verifiedBy keys: [VerificationKey], at now: Double) throws(RefusalError) {
        guard text.utf8.count <= Self.charactersMax else { throw RefusalError("token is too long") }
        let parts = text.split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count == 3 else { throw RefusalError("token contains an invalid number of segments") }
        guard let headerBytes = TokenIssuer.decode(parts[0]), let payload = TokenIssuer.decode(parts[1]),
            let signature = TokenIssuer.decode(parts[2]), let header = try? JSONReader.read(headerBytes),
            let claims = try? JSONReader.read(payload), claims.object != nil
        else { throw RefusalError("token is malformed") }
        guard let algorithm = header["alg"]?.string.flatMap(VerificationKey.Algorithm.init(rawValue:)) else {
            throw RefusalError("signing method is not allowed")
        }
        let id = header["kid"]?.string
        let signed = Array((parts[0] + "." + parts[1]).utf8)
        let candidates = keys.filter { $0.algorithm == algorithm && ($0.id == nil || id == nil || $0.id == id) }
        guard !candidates.isEmpty else { throw RefusalError("no key for this token") }
        guard candidates.contains(where: { $0.verifies(signature, of: signed) }) else {
            throw RefusalError("signature is invalid")
        }
        guard let expiry = claims["exp"]?.double else { throw RefusalError("token has no exp") }
        guard now < expiry else { throw RefusalError("token is expired") }
        if let start = claims["nbf"]?.double, now < start { throw RefusalError("token is not valid yet") }
        self.claims = claims
    }

    /// `sub`, which is the id of the identity.
    func subject() throws(RefusalError) -> String {
        guard let subject = claims["sub"]?.string, !subject.isEmpty else { throw RefusalError("token has no sub") }
        return subject
    }

    /// `aud`: one text or a list.
    var audience: [String] { claims["aud"]?.string.map { [$0] } ?? claims["aud"]?.array?.compactMap(\.string) ?? [] }
}

/// How custom JWTs are verified and what becomes of their claims.
struct CustomTokenSettings: Sendable {
    /// A claim that becomes a member of the profile's `data`.
    struct MetadataField: Sendable {
        /// Characters of a text.
        static let charactersMax = 4096

        let claim: String
        let field: String
        let isRequired: Bool
    }

    var keys: [VerificationKey] = []
    var audience: [String] = []
    /// One audience is enough; otherwise the token must have all.
    var isOneAudienceEnough = false
    var metadata: [MetadataField] = []

    func user(of text: String, at now: Double) throws(ForeignToken.RefusalError) -> ExternalUser {
        let token = try ForeignToken(text, verifiedBy: keys, at: now)
        let given = Set(token.audience)
        let isMeant = isOneAudienceEnough ? audience.contains(where: given.contains) : given.isSuperset(of: audience)
        guard isMeant else { throw .init("token has another aud") }
        var data = JSONObject()
        for field in metadata {
            guard let value = token.claims.value(at: field.claim), value != .null else {
                if field.isRequired { throw .init("token has no \(field.claim)") }
                continue
            }
            guard (value.string ?? "").count <= MetadataField.charactersMax else {
                throw .init("\(field.claim) is too long")
            }
            data[field.field] = value
        }
        return ExternalUser(id: try token.subject(), data: data)
    }
}

/// How ID tokens of Google or Apple are verified (OpenID Connect Core 1.0 section 3.1.3.7).
struct OpenIDSettings: Sendable {
    var keys: [VerificationKey] = []
    var issuers: [String]
    /// The audiences; nil: any will do.
    var clientIDs: [String]?

    init(issuers: [String]) { self.issuers = issuers }

    /// Claims and the profile's names for them.
    private static let fields = [
        ("name", "name"), ("given_name", "first_name"), ("family_name", "last_name"), ("email", "email"),
        ("picture", "picture"),
    ]

    func user(of text: String, at now: Double) throws(ForeignToken.RefusalError) -> ExternalUser {
        let token = try ForeignToken(text, verifiedBy: keys, at: now)
        guard let issuer = token.claims["iss"]?.string, issuers.contains(issuer) else {
            throw .init("token has another iss")
        }
        if let clientIDs, !token.audience.contains(where: clientIDs.contains) { throw .init("token has another aud") }
        let data = Self.fields.compactMap { claim, field in token.claims[claim].map { (field, Optional($0)) } }
        return ExternalUser(id: try token.subject(), data: JSONObject(data))
    }
}
