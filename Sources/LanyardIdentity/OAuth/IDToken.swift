import LanyardFoundations
import LanyardSessionInterface

/// The claims of an ID token that a login checks (OpenID Connect Core 3.1.3.7), and the account that it names.
///
/// The signature is not verified: the token comes from the token endpoint over TLS, which is enough by point 6 of that section.
struct IDToken {
    /// How far the clocks may differ.
    private static let skewMax: Int64 = 120

    /// OpenID Connect Core 2: at most 255 ASCII characters.
    private static let subjectBytesMax = 255

    /// What it proves of the account once it has no defect; nil: `iss` or `sub` is missing.
    private(set) var account: AccountFingerprint?
    private(set) var issuer: String?
    /// The service's id of the account; nil: none, or one that cannot be shown.
    private(set) var subject: String?
    /// Entra's `tid`.
    private(set) var tenant: String?
    private(set) var audiences: [String] = []
    private(set) var authorizedParty: String?
    private(set) var nonce: String?
    private(set) var expiry: Int64?
    private(set) var issuedAt: Int64?

    /// nil: not a JWT with a JSON object.
    init?(_ token: Secret) {
        guard let payload = token.withBytes({ JWTClaims.payload($0) }) else { return nil }
        let isRead = payload.withBytes { bytes in
            do throws(JSONError) { return try read(bytes) } catch { return false }
        }
        guard isRead else { return nil }
        account = AccountFingerprint.idToken(token)
    }

    /// What is wrong with it; nil: nothing.
    ///
    /// - Parameters:
    ///   - issuer: that the token must name; nil: endpoints are configured in its place, and it is not checked.
    ///   - nonce: of the login; nil: it had none (RFC 8628).
    ///   - now: by the service's clock.
    ///   - echo: of the call's whole secrets: an issuer with one of them is not shown, and one that shares letters with a token is.
    func defect(
        clientID: String, issuer: ExpectedIssuer?, nonce: String?, now: WallTime,
        without echo: @autoclosure () -> SecretEcho = SecretEcho(of: [])
    ) -> String? {
        if let issuer, let defect = issuer.defect(of: self, without: echo()) { return defect }
        guard audiences.contains(clientID) else { return "its aud does not name the client" }
        if audiences.count > 1, authorizedParty == nil { return "it has several aud and no azp" }
        if let authorizedParty, authorizedParty != clientID { return "its azp is another client" }
        if let nonce {
            guard self.nonce != nil else { return "it has no nonce" }
            guard self.nonce == nonce else { return "its nonce is not the one of this login" }
        }
        guard let expiry, expiry > now.seconds - Self.skewMax else { return "it has expired; compare the clocks" }
        guard let issuedAt, issuedAt < now.seconds + Self.skewMax else {
            return "its iat is missing or in the future; compare the clocks"
        }
        return nil
    }

    private mutating func read(_ bytes: UnsafeRawBufferPointer) throws(JSONError) -> Bool {
        var reader = JSONReader(bytes, depthMax: 64)
        guard try reader.next() == .objectStart else { return false }
        while case .name(let name) = try reader.next() {
            let names: [StaticString] = ["iss", "sub", "tid", "aud", "azp", "nonce", "exp", "iat"]
            guard let known = names.first(where: { JSONText.matches(name, of: bytes, $0) }) else {
                try reader.skipValue()
                continue
            }
            let token = try reader.next()
            switch (known.description, token) {
            // As if it were not there.
            case (_, .null): break
            case ("iss", .string(let text)): issuer = Self.text(text, bytes)
            case ("tid", .string(let text)): tenant = Self.text(text, bytes)
            case ("sub", .string(let text)): subject = Self.shown(Self.text(text, bytes))
            // It is shown, and may be anything. So is what other servers have in place of Entra's.
            case ("sub", .objectStart), ("sub", .arrayStart), ("tid", .objectStart), ("tid", .arrayStart):
                try OAuthResponse.skipRest(of: &reader)
            case ("sub", _), ("tid", _): break
            // An empty one names no client.
            case ("azp", .string(let text)): authorizedParty = text.range.isEmpty ? nil : Self.text(text, bytes)
            case ("nonce", .string(let text)): nonce = Self.text(text, bytes)
            case ("aud", .string(let text)): audiences = [Self.text(text, bytes)]
            case ("aud", .arrayStart):
                while true {
                    let element = try reader.next()
                    if element == .arrayEnd { break }
                    guard case .string(let text) = element else { return false }
                    audiences.append(Self.text(text, bytes))
                }
            case ("exp", .number(let range)): expiry = JSONNumber.integer(bytes[range])
            case ("iat", .number(let range)): issuedAt = JSONNumber.integer(bytes[range])
            // What is no number counts as absent.
            case ("exp", .string), ("exp", .bool), ("iat", .string), ("iat", .bool): break
            default: return false
            }
        }
        return try reader.next() == .end
    }

    /// The same with an account's id that can be shown: without a secret of the call. A piece of one may be there by chance: Salesforce
    /// begins its access tokens with a part of the account's id.
    func named(without echo: @autoclosure () -> SecretEcho) -> IDToken {
        guard let subject, echo().isIn(text: subject) else { return self }
        var token = self
        token.subject = nil
        return token
    }

    private static func shown(_ subject: String) -> String? {
        let isPlain = 1...subjectBytesMax ~= subject.utf8.count && subject.utf8.allSatisfy { 0x21..<0x7f ~= $0 }
        return isPlain ? subject : nil
    }

    private static func text(_ text: JSONReader.Text, _ bytes: UnsafeRawBufferPointer) -> String {
        var characters: [UInt8] = []
        JSONText.decode(text, of: bytes) { characters.append($0) }
        return String(decoding: characters, as: UTF8.self)
    }
}

/// The issuer that an ID token of a login must name.
struct ExpectedIssuer {
    private static let textBytesMax = 256

    /// As it is configured.
    let text: String
    /// `text` is that of all tenants of Entra, or of all that are organizations: the token names its own in that place, which is also its
    /// `tid` (Microsoft identity platform, "Validate the issuer").
    private let tenantPlace: Int?

    /// - Parameter hasTenants: the metadata has `{tenantid}` in the issuer, or what it has is unknown.
    init(_ text: String, hasTenants: Bool) {
        self.text = text
        let parts = Self.parts(text)
        tenantPlace = hasTenants ? parts.firstIndex { $0 == "common" || $0 == "organizations" } : nil
    }

    /// What is wrong with the token's issuer; nil: nothing.
    fileprivate func defect(of token: IDToken, without echo: @autoclosure () -> SecretEcho) -> String? {
        guard let issuer = token.issuer else { return "it has no iss" }
        let expected = tenant(of: token) ?? text
        guard issuer != text, issuer != expected else { return nil }
        let echo = echo()
        let isShown = Self.isPlain(issuer) && !echo.isIn(text: issuer)
        // The tenant in it is the token's.
        let own = expected == text || !echo.isIn(text: expected) ? expected : text
        return "its iss is \(isShown ? issuer : "a text that cannot be shown"), not \(own)"
    }

    private func tenant(of token: IDToken) -> String? {
        guard let tenantPlace, let tenant = token.tenant, Self.isPlain(tenant), !tenant.contains("/") else {
            return nil
        }
        var parts = Self.parts(text).map(String.init)
        parts[tenantPlace] = tenant
        return parts.joined(separator: "/")
    }

    private static func parts(_ text: String) -> [Substring] {
        text.split(separator: "/", omittingEmptySubsequences: false)
    }

    private static func isPlain(_ text: String) -> Bool {
        1...textBytesMax ~= text.utf8.count && text.utf8.allSatisfy { 0x21..<0x7f ~= $0 }
    }
}
