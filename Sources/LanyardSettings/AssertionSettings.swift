/// What an assertion says that Lanyard signs for a login (RFC 7523 §3).
package struct AssertionSettings: Equatable, Sendable {
    /// Where a login's scopes stand.
    package enum ScopePlace: String, Sendable, CaseIterable {
        /// In the form (RFC 7521 §4.1).
        case form
        /// In the assertion's claim `scope`, as Google has it.
        case claim
        case both
    }

    /// `kid`; nil: none. Of a key file of Google: the file's.
    package var keyID: String?
    package var algorithm = SigningAlgorithm.es256
    /// `iss`; nil: the client. Of a key file of Google: the file's.
    package var issuer: String?
    /// `sub`; nil: the same as `iss`. Of a key file of Google: none.
    package var subject: String?
    /// `aud`. Of a key file of Google: the file's `token_uri`.
    package var audience = ClientKey.Audience.issuer
    /// `exp − iat`.
    package var lifetime = Duration.seconds(330)
    package var scopePlace = ScopePlace.form
    /// Further claims with text values, in order.
    package var claims: [OAuthParameter] = []

    /// Claims that Lanyard writes itself.
    package static let reservedClaims: Set<String> = ["iss", "sub", "aud", "iat", "exp", "jti", "scope"]

    package init() {}
}

/// The types of the tokens of a token exchange, as URIs (RFC 8693 §3).
package struct TokenTypes: Equatable, Sendable {
    private static let prefix = "urn:ietf:params:oauth:token-type:"
    /// The words that stand for a type of RFC 8693 §3.
    package static let words = ["access_token", "refresh_token", "id_token", "saml1", "saml2", "jwt"]

    package var subject = prefix + "access_token"
    package var actor = prefix + "access_token"
    /// nil: the server's choice, an access token.
    package var requested: String?

    package init() {}

    /// The URI of a type: a word of `words`, or a URI itself. nil: neither.
    package static func uri(_ text: String) -> String? {
        if words.contains(text) { return prefix + text }
        return text.utf8.contains(UInt8(ascii: ":")) && text.utf8.allSatisfy { 0x21..<0x7f ~= $0 } ? text : nil
    }
}
