import LanyardFoundations

/// The two instants of a JSON Web Token's payload, in seconds since 1970 by the issuer's clock (RFC 7519 §4.1).
///
/// The signature is not verified: only the service can verify it, and nothing here relies on it. Servers differ in all other claims, so
/// none is required.
package struct JWTClaims: Equatable, Sendable {
    /// `exp`.
    package var expiry: Int64?
    /// `iat`.
    package var issuedAt: Int64?

    /// nil if the token does not have three parts, the second of which decodes to a JSON object.
    package init?(of token: Secret) {
        let payload = token.withBytes { Self.payload($0) }
        guard let payload, let claims = payload.withBytes({ Self.read($0) }) else { return nil }
        self = claims
    }

    private init() {}

    /// The custom data that an access token of App Services carries (app-services-accounts.md 4.2), `{}` if there is none. It is in
    /// `user_data`, in a compatible server's token in `custom_data`.
    ///
    /// - Returns: nil if the token is not a JWT, or the data is not an object.
    static func customData(in token: Secret) -> Secret? {
        guard let payload = token.withBytes({ Self.payload($0) }) else { return nil }
        return payload.withBytes { readCustomData($0) }
    }

    private static func readCustomData(_ bytes: UnsafeRawBufferPointer) -> Secret? {
        var found: (data: Secret, isCustom: Bool)?
        do throws(JSONError) {
            var reader = JSONReader(bytes, depthMax: 128)
            guard try reader.next() == .objectStart else { return nil }
            while case .name(let name) = try reader.next() {
                let isCustom = JSONText.matches(name, of: bytes, "custom_data")
                guard isCustom || JSONText.matches(name, of: bytes, "user_data") else {
                    try reader.skipValue()
                    continue
                }
                var copy = JSONCopy(of: bytes)
                let first = try copy.appendValue(of: &reader)
                guard first != .null else { continue }
                guard first == .objectStart else { return nil }
                if found?.isCustom != true { found = (copy.seal(), isCustom) }
            }
        } catch {
            return nil
        }
        return found?.data ?? emptyObject()
    }

    /// The claim `aud`: a text, or a list of texts (RFC 7519 §4.1.3). Empty: it is missing, or something else.
    ///
    /// - Returns: nil if the token is not a JWT.
    static func audiences(in token: Secret) -> [String]? {
        guard let payload = token.withBytes({ Self.payload($0) }) else { return nil }
        return payload.withBytes { bytes in
            do throws(JSONError) { return try readAudiences(bytes) } catch { return nil }
        }
    }

    private static func readAudiences(_ bytes: UnsafeRawBufferPointer) throws(JSONError) -> [String]? {
        var reader = JSONReader(bytes, depthMax: 64)
        guard try reader.next() == .objectStart else { return nil }
        var audiences: [String] = []
        while case .name(let name) = try reader.next() {
            guard JSONText.matches(name, of: bytes, "aud") else {
                try reader.skipValue()
                continue
            }
            switch try reader.next() {
            case .string(let value): audiences = [text(value, bytes)]
            case .arrayStart:
                audiences = []
                while true {
                    let element = try reader.next()
                    if element == .arrayEnd { break }
                    guard case .string(let value) = element else { return [] }
                    audiences.append(text(value, bytes))
                }
            default: return []
            }
        }
        return audiences
    }

    /// The thumbprint of the certificate that the token is bound to: `x5t#S256` of the claim `cnf` (RFC 8705 §3.1).
    ///
    /// - Returns: nil if the token is not a JWT, or names none.
    static func certificateThumbprint(in token: Secret) -> String? {
        guard let payload = token.withBytes({ Self.payload($0) }) else { return nil }
        return payload.withBytes { bytes in
            do throws(JSONError) { return try readThumbprint(bytes) } catch { return nil }
        }
    }

    private static func readThumbprint(_ bytes: UnsafeRawBufferPointer) throws(JSONError) -> String? {
        var reader = JSONReader(bytes, depthMax: 64)
        guard try reader.next() == .objectStart else { return nil }
        var isConfirmation = false
        while true {
            let token = try reader.next()
            guard case .name(let name) = token else {
                // The end of `cnf`, or of the payload.
                if isConfirmation, token == .objectEnd { isConfirmation = false; continue }
                return nil
            }
            if !isConfirmation, JSONText.matches(name, of: bytes, "cnf") {
                guard try reader.next() == .objectStart else { return nil }
                isConfirmation = true
            } else if isConfirmation, JSONText.matches(name, of: bytes, "x5t#S256") {
                guard case .string(let value) = try reader.next() else { return nil }
                return text(value, bytes)
            } else {
                try reader.skipValue()
            }
        }
    }

    /// Issuer and subject of a token, which together name an account (RFC 7519 §4.1.1, §4.1.2): exact, whatever characters they have.
    ///
    /// - Returns: nil if the token is not a JWT, or lacks one of them.
    static func account(in token: Secret) -> (issuer: String, subject: String)? {
        guard let payload = token.withBytes({ Self.payload($0) }) else { return nil }
        return payload.withBytes { bytes in
            do throws(JSONError) { return try readAccount(bytes) } catch { return nil }
        }
    }

    private static func readAccount(
        _ bytes: UnsafeRawBufferPointer
    ) throws(JSONError) -> (issuer: String, subject: String)? {
        var reader = JSONReader(bytes, depthMax: 64)
        guard try reader.next() == .objectStart else { return nil }
        var (issuer, subject) = ("", "")
        while case .name(let name) = try reader.next() {
            let isIssuer = JSONText.matches(name, of: bytes, "iss")
            guard isIssuer || JSONText.matches(name, of: bytes, "sub") else {
                try reader.skipValue()
                continue
            }
            guard case .string(let value) = try reader.next() else { return nil }
            if isIssuer { issuer = text(value, bytes) } else { subject = text(value, bytes) }
        }
        guard try reader.next() == .end, !issuer.isEmpty, !subject.isEmpty else { return nil }
        return (issuer, subject)
    }

    private static func text(_ text: JSONReader.Text, _ bytes: UnsafeRawBufferPointer) -> String {
        var characters: [UInt8] = []
        JSONText.decode(text, of: bytes) { characters.append($0) }
        return String(decoding: characters, as: UTF8.self)
    }

    private static func emptyObject() -> Secret {
        var text = SecretBuffer()
        text.append("{}")
        return text.seal()
    }

    /// The decoded middle part.
    static func payload(_ token: UnsafeRawBufferPointer) -> Secret? {
        let parts = token.split(separator: UInt8(ascii: "."), maxSplits: 3, omittingEmptySubsequences: false)
        guard parts.count == 3, !parts[0].isEmpty, !parts[2].isEmpty else { return nil }
        return Base64.decode(parts[1])
    }

    /// A claim that is no number counts as absent.
    private static func read(_ bytes: UnsafeRawBufferPointer) -> JWTClaims? {
        do {
            var reader = JSONReader(bytes, depthMax: 64)
            var claims = JWTClaims()
            guard try reader.next() == .objectStart else { return nil }
            while case .name(let name) = try reader.next() {
                let isExpiry = JSONText.matches(name, of: bytes, "exp")
                guard isExpiry || JSONText.matches(name, of: bytes, "iat") else {
                    try reader.skipValue()
                    continue
                }
                let token = try reader.next()
                if token == .objectStart || token == .arrayStart { try OAuthResponse.skipRest(of: &reader) }
                guard case .number(let range) = token else { continue }
                if isExpiry {
                    claims.expiry = JSONNumber.integer(bytes[range])
                } else {
                    claims.issuedAt = JSONNumber.integer(bytes[range])
                }
            }
            _ = try reader.next()
            return claims
        } catch {
            return nil
        }
    }
}
