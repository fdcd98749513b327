import COpenSSL

/// A key that verifies tokens of another issuer, with the one algorithm that it is for (RFC 7518 §3).
struct VerificationKey: Sendable {
    enum Algorithm: String, CaseIterable, Sendable { case hs256 = "HS256", rs256 = "RS256", es256 = "ES256" }

    /// Why a text is no key. A type of its own, because the configuration adds the place.
    struct KeyError: Error {
        let description: String
    }

    private enum Material {
        case secret([UInt8])
        case key(PublicKey)
    }

    let algorithm: Algorithm
    /// `kid` of a JWK; nil: the key is tried for every token of its algorithm.
    let id: String?
    private let material: Material

    /// - Parameter text: the secret itself for HS256, else PEM.
    init(_ algorithm: Algorithm, _ text: String) throws(KeyError) {
        if algorithm == .hs256 {
            guard !text.isEmpty else { throw KeyError(description: "the secret is empty") }
            self.init(secret: Array(text.utf8), id: nil)
        } else {
            guard let key = PublicKey.read(pem: text) else {
                throw KeyError(description: "no PEM of an RSA or P-256 public key or certificate")
            }
            try self.init(algorithm, key, id: nil)
        }
    }

    init(_ algorithm: Algorithm, _ key: PublicKey, id: String?) throws(KeyError) {
        switch (algorithm, key.kind) {
        case (.rs256, .rsa(let bits)) where bits < 2048:
            throw KeyError(description: "an RSA key has at least 2048 bits (RFC 7518 section 3.3)")
        case (.rs256, .rsa), (.es256, .p256): (self.algorithm, self.id, material) = (algorithm, id, .key(key))
        default: throw KeyError(description: "the key is not for \(algorithm.rawValue)")
        }
    }

    /// A secret of a JWK.
    init(secret: [UInt8], id: String?) { (algorithm, self.id, material) = (.hs256, id, .secret(secret)) }

    func verifies(_ signature: [UInt8], of signed: [UInt8]) -> Bool {
        switch material {
        case .secret(let secret):
            var digest = [UInt8](repeating: 0, count: 32)
            HMAC(EVP_sha256(), secret, CInt(secret.count), signed, signed.count, &digest, nil)
            return signature.count == 32 && CRYPTO_memcmp(signature, digest, 32) == 0
        case .key(let key):
            guard algorithm == .es256 else { return key.verifies(signature, of: signed) }
            // Two numbers of 32 bytes (RFC 7518 §3.4).
            guard signature.count == 64 else { return false }
            let numbers = DER.integer(Array(signature[..<32])) + DER.integer(Array(signature[32...]))
            return key.verifies(DER.sequence(numbers), of: signed)
        }
    }
}

/// Reads a JWK set (RFC 7517 §5).
enum JSONWebKeySet {
    /// The keys for signatures. Keys of other kinds or for other uses are left out.
    ///
    /// - Throws: `KeyError` if there is no list of keys, if a key is damaged, or if none is left.
    static func keys(_ set: JSONValue) throws(VerificationKey.KeyError) -> [VerificationKey] {
        guard let list = set["keys"]?.array else { throw .init(description: "no JWK set: keys is missing") }
        var keys: [VerificationKey] = []
        for (index, key) in list.enumerated() where key["use"]?.string ?? "sig" == "sig" {
            do throws(VerificationKey.KeyError) {
                if let key = try self.key(key) { keys.append(key) }
            } catch {
                throw .init(description: "key \(index + 1): \(error.description)")
            }
        }
        guard !keys.isEmpty else { throw .init(description: "no key for HS256, RS256 or ES256 in the JWK set") }
        return keys
    }

    private static func key(_ key: JSONValue) throws(VerificationKey.KeyError) -> VerificationKey? {
        let id = key["kid"]?.string, algorithm = key["alg"]?.string
        func bytes(_ name: String) throws(VerificationKey.KeyError) -> [UInt8] {
            guard let value = key[name]?.string.flatMap({ TokenIssuer.decode($0[...]) }), !value.isEmpty else {
                throw .init(description: "\(name) is no base64url")
            }
            return value
        }
        switch (key["kty"]?.string, algorithm) {
        case ("RSA", nil), ("RSA", "RS256"):
            guard let publicKey = PublicKey.rsa(modulus: try bytes("n"), exponent: try bytes("e")) else {
                throw .init(description: "no RSA key")
            }
            return try VerificationKey(.rs256, publicKey, id: id)
        case ("EC", nil) where key["crv"]?.string == "P-256", ("EC", "ES256"):
            guard let publicKey = PublicKey.p256(x: try bytes("x"), y: try bytes("y")) else {
                throw .init(description: "no P-256 key")
            }
            return try VerificationKey(.es256, publicKey, id: id)
        case ("oct", nil), ("oct", "HS256"): return VerificationKey(secret: try bytes("k"), id: id)
        default: return nil
        }
    }
}
