import COpenSSL
import LanyardFoundations
import LanyardSettings

/// A JSON Web Token that Lanyard signs itself: a client's assertion (RFC 7523 §2.2) or a grant (RFC 7523 §2.1).
struct JSONWebToken {
    let issuer: String
    /// nil: no such claim, here and below.
    let subject: String?
    let audience: String?
    /// How far `iat` lies in the past, in seconds, for a service whose clock is behind.
    var issuedAtMargin: Int64 = 30
    /// `exp − iat`, in seconds. Google and GitHub take at most an hour and ten minutes.
    var lifetime: Int64 = 330
    /// Further claims with text values, such as Google's `scope`.
    var claims: [(name: String, value: String)] = []

    /// The compact serialization (RFC 7515 §7.1); nil: OpenSSL failed, as when memory is short.
    ///
    /// - Parameters:
    ///   - keyID: `kid`; nil: none.
    ///   - now: by the service's clock.
    func signed(by key: borrowing SigningKey, _ algorithm: SigningAlgorithm, keyID: String?, at now: WallTime)
        -> Secret?
    {
        var text = SecretBuffer(capacity: 1024)
        let header = header(algorithm, keyID, key.certificateThumbprint)
        header.withBytes { Base64.encodeURL($0, into: &text) }
        text.append(UInt8(ascii: "."))
        let payload = payload(at: now)
        payload.withBytes { Base64.encodeURL($0, into: &text) }
        guard let signature = text.withBytes({ key.signature(of: $0) }) else { return nil }
        text.append(UInt8(ascii: "."))
        signature.withUnsafeBytes { Base64.encodeURL($0, into: &text) }
        return text.seal()
    }

    private func header(_ algorithm: SigningAlgorithm, _ keyID: String?, _ thumbprint: String?) -> Secret {
        var text = SecretBuffer()
        text.append("{\"alg\":\"\(algorithm.rawValue)\",\"typ\":\"JWT\"")
        if let keyID { Self.append("kid", keyID, to: &text) }
        if let thumbprint { Self.append("x5t#S256", thumbprint, to: &text) }
        text.append("}")
        return text.seal()
    }

    private func payload(at now: WallTime) -> Secret {
        var text = SecretBuffer()
        let issuedAt = now.seconds - issuedAtMargin
        text.append("{\"iat\":\(issuedAt),\"exp\":\(issuedAt + lifetime)")
        let identifier = KeyedHash.newKey()
        Self.append("jti", identifier.withBytes { Base64.urlText($0) }, to: &text)
        for (name, value) in [("iss", issuer), ("sub", subject), ("aud", audience)] {
            if let value { Self.append(name, value, to: &text) }
        }
        for (name, value) in claims { Self.append(name, value, to: &text) }
        text.append("}")
        return text.seal()
    }

    private static func append(_ name: String, _ value: String, to text: inout SecretBuffer) {
        text.append(",")
        JSONText.write(name, into: &text)
        text.append(":")
        JSONText.write(value, into: &text)
    }
}
