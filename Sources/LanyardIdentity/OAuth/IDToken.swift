import LanyardFoundations

/// The claims of an ID token that a login checks (OpenID Connect Core 3.1.3.7).
///
/// The signature is not verified: the token comes from the token endpoint over TLS, which is enough by point 6 of that section.
struct IDToken {
    /// How far the clocks may differ.
    private static let skewMax: Int64 = 120

    private(set) var issuer: String?
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
    }

    /// What is wrong with it; nil: nothing.
    ///
    /// - Parameters:
    ///   - issuer: as it is configured; nil: endpoints are configured in its place, and it is not checked.
    ///   - now: by the service's clock.
    func defect(clientID: String, issuer: String?, nonce: String, now: WallTime) -> String? {
        if let issuer, self.issuer != issuer { return "its iss is not the configured issuer" }
        guard audiences.contains(clientID) else { return "its aud does not name the client" }
        if audiences.count > 1, authorizedParty == nil { return "it has several aud and no azp" }
        if let authorizedParty, authorizedParty != clientID { return "its azp is another client" }
        guard self.nonce == nonce else { return "its nonce is not the one of this login" }
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
            let names: [StaticString] = ["iss", "aud", "azp", "nonce", "exp", "iat"]
            guard let known = names.first(where: { JSONText.matches(name, of: bytes, $0) }) else {
                try reader.skipValue()
                continue
            }
            let token = try reader.next()
            switch (known.description, token) {
            case ("iss", .string(let text)): issuer = Self.text(text, bytes)
            case ("azp", .string(let text)): authorizedParty = Self.text(text, bytes)
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
            default: return false
            }
        }
        return try reader.next() == .end
    }

    private static func text(_ text: JSONReader.Text, _ bytes: UnsafeRawBufferPointer) -> String {
        var characters: [UInt8] = []
        JSONText.decode(text, of: bytes) { characters.append($0) }
        return String(decoding: characters, as: UTF8.self)
    }
}
