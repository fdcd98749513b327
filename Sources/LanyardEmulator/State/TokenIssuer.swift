import COpenSSL
import Foundation

/// Issues and verifies the service's JSON Web Tokens: HS256, base64url without padding, a key that only the service knows.
struct TokenIssuer: Sendable {
    /// Why a token was not issued by this service. A type of its own, because the two cases
    /// have two texts: `ServiceError` has them.
    enum ReadError: Error, Equatable { case unparsable, badSignature }

    let key: [UInt8]
    private static let header = encode(Array(#"{"alg":"HS256","typ":"JWT"}"#.utf8))

    init(key: [UInt8] = Identifiers.random(32)) { self.key = key }

    func sign(_ claims: JSONValue) -> String {
        let signed = Self.header + "." + Self.encode([UInt8](claims.text.utf8))
        return signed + "." + Self.encode(signature(of: signed))
    }

    /// The claims of a token with a valid signature. The caller checks its expiry.
    func claims(of token: String) throws(ReadError) -> JSONValue {
        let parts = token.split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count == 3, let payload = Self.decode(parts[1]), let given = Self.decode(parts[2]),
            let claims = try? JSONReader.read(payload)
        else { throw .unparsable }
        let own = signature(of: parts[0] + "." + parts[1])
        guard given.count == own.count, CRYPTO_memcmp(given, own, own.count) == 0 else { throw .badSignature }
        return claims
    }

    private func signature(of text: String) -> [UInt8] {
        var digest = [UInt8](repeating: 0, count: 32)
        let bytes = Array(text.utf8)
        HMAC(EVP_sha256(), key, CInt(key.count), bytes, bytes.count, &digest, nil)
        return digest
    }

    static func encode(_ bytes: [UInt8]) -> String {
        Data(bytes).base64EncodedString().replacing("+", with: "-").replacing("/", with: "_").replacing("=", with: "")
    }

    /// base64url without padding; padding is accepted.
    static func decode(_ text: Substring) -> [UInt8]? {
        let plain = text.replacing("-", with: "+").replacing("_", with: "/")
        let unpadded = plain.prefix { $0 != "=" }
        let padded = unpadded + String(repeating: "=", count: (4 - unpadded.utf8.count % 4) % 4)
        return Data(base64Encoded: String(padded)).map { [UInt8]($0) }
    }
}
