import COpenSSL

/// A private key that signs tokens: P-256 with ES256, or RSA with RS256. OpenSSL allows any number of threads to sign with one key.
final class SigningKey: @unchecked Sendable {
    private let key: OpaquePointer
    /// Verifies what it has signed.
    let verification: VerificationKey
    let algorithm: VerificationKey.Algorithm
    /// The thumbprint of the public key (RFC 7638).
    let id: String
    /// The public key as a member of a JWK set.
    let jwk: JSONValue

    /// Takes ownership of an `EVP_PKEY`. nil: it is neither P-256 nor RSA of 2048 bits.
    private init?(_ key: OpaquePointer) {
        func number(_ name: String, bytes: Int?) -> [UInt8]? {
            var number: OpaquePointer?
            guard EVP_PKEY_get_bn_param(key, name, &number) == 1 else { return nil }
            defer { BN_free(number) }
            let count = bytes ?? Int(BN_num_bits(number) + 7) / 8
            var result = [UInt8](repeating: 0, count: count)
            return BN_bn2binpad(number, &result, CInt(count)) == CInt(count) ? result : nil
        }
        let members: JSONObject, algorithm: VerificationKey.Algorithm, publicKey: PublicKey?
        if EVP_PKEY_get_base_id(key) == EVP_PKEY_RSA, let modulus = number("n", bytes: nil),
            let exponent = number("e", bytes: nil)
        {
            // The names in the order of RFC 7638 §3.2.
            members = [
                "e": .string(TokenIssuer.encode(exponent)), "kty": "RSA", "n": .string(TokenIssuer.encode(modulus)),
            ]
            (algorithm, publicKey) = (.rs256, PublicKey.rsa(modulus: modulus, exponent: exponent))
        } else if EVP_PKEY_get_base_id(key) == EVP_PKEY_EC, let x = number("qx", bytes: 32),
            let y = number("qy", bytes: 32)
        {
            members = [
                "crv": "P-256", "kty": "EC", "x": .string(TokenIssuer.encode(x)), "y": .string(TokenIssuer.encode(y)),
            ]
            (algorithm, publicKey) = (.es256, PublicKey.p256(x: x, y: y))
        } else {
            EVP_PKEY_free(key)
            return nil
        }
        let id = TokenIssuer.encode(Identifiers.sha256([UInt8](JSONValue.object(members).text.utf8)))
        guard let publicKey, let verification = try? VerificationKey(algorithm, publicKey, id: id) else {
            EVP_PKEY_free(key)
            return nil
        }
        self.key = key
        self.verification = verification
        self.algorithm = algorithm
        self.id = id
        jwk = .object(members.merging(["kid": .string(id), "use": "sig", "alg": .string(algorithm.rawValue)]))
    }

    deinit { EVP_PKEY_free(key) }

    /// A new P-256 key. nil: OpenSSL cannot make one.
    static func generate() -> SigningKey? {
        defer { ERR_clear_error() }
        guard let context = EVP_PKEY_CTX_new_id(EVP_PKEY_EC, nil) else { return nil }
        defer { EVP_PKEY_CTX_free(context) }
        var key: OpaquePointer?
        guard EVP_PKEY_keygen_init(context) == 1,
            EVP_PKEY_CTX_set_ec_paramgen_curve_nid(context, NID_X9_62_prime256v1) == 1,
            EVP_PKEY_keygen(context, &key) == 1
        else { return nil }
        return key.flatMap { SigningKey($0) }
    }

    /// A key in PEM. nil: it is none of the kinds above, or has a passphrase.
    convenience init?(pem: String) {
        defer { ERR_clear_error() }
        let key = Array(pem.utf8).withUnsafeBytes { bytes -> OpaquePointer? in
            guard let input = BIO_new_mem_buf(bytes.baseAddress, CInt(bytes.count)) else { return nil }
            defer { BIO_free(input) }
            // Without this function OpenSSL would ask the terminal for a passphrase.
            return PEM_read_bio_PrivateKey(input, nil, { _, _, _, _ in 0 }, nil)
        }
        guard let key else { return nil }
        self.init(key)
    }

    /// The private key in PEM, for snapshots.
    var pem: String {
        defer { ERR_clear_error() }
        guard let output = BIO_new(BIO_s_mem()) else { return "" }
        defer { BIO_free(output) }
        guard PEM_write_bio_PrivateKey(output, key, nil, nil, 0, nil, nil) == 1 else { return "" }
        var room = [UInt8](repeating: 0, count: 16_384)
        let count = BIO_read(output, &room, CInt(room.count))
        return String(decoding: room.prefix(max(0, Int(count))), as: UTF8.self)
    }

    /// A JWT (RFC 7519).
    ///
    /// - Parameter type: `at+jwt` (RFC 9068 §2.1) or `JWT`.
    func sign(_ claims: JSONValue, type: String) -> String {
        let header = JSONValue.members([
            "alg": .string(algorithm.rawValue), "kid": .string(id), "typ": .string(type),
        ])
        let signed =
            TokenIssuer.encode([UInt8](header.text.utf8)) + "." + TokenIssuer.encode([UInt8](claims.text.utf8))
        return signed + "." + TokenIssuer.encode(signature(Array(signed.utf8)))
    }

    /// Header and claims of a token that this key has signed. The caller checks its expiry.
    func read(_ token: String) throws(TokenIssuer.ReadError) -> (header: JSONValue, claims: JSONValue) {
        let parts = token.split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count == 3, let headerBytes = TokenIssuer.decode(parts[0]),
            let payload = TokenIssuer.decode(parts[1]),
            let signature = TokenIssuer.decode(parts[2]), let header = try? JSONReader.read(headerBytes),
            let claims = try? JSONReader.read(payload)
        else { throw .unparsable }
        guard header["alg"]?.string == algorithm.rawValue,
            verification.verifies(signature, of: Array((parts[0] + "." + parts[1]).utf8))
        else { throw .badSignature }
        return (header, claims)
    }

    /// RFC 7518 §3.3 or §3.4. Empty if OpenSSL cannot sign; such a token is refused everywhere.
    private func signature(_ bytes: [UInt8]) -> [UInt8] {
        defer { ERR_clear_error() }
        guard let context = EVP_MD_CTX_new() else { return [] }
        defer { EVP_MD_CTX_free(context) }
        var signature = [UInt8](repeating: 0, count: 2048)
        var count = signature.count
        guard EVP_DigestSignInit(context, nil, EVP_sha256(), nil, key) == 1,
            EVP_DigestSign(context, &signature, &count, bytes, bytes.count) == 1
        else { return [] }
        signature = Array(signature.prefix(count))
        return algorithm == .rs256 ? signature : Self.numbers(ofDER: signature)
    }

    /// The two numbers of a signature by P-256, 32 bytes each. In DER each is at most 33 bytes, so every length is one byte.
    private static func numbers(ofDER der: [UInt8]) -> [UInt8] {
        var rest = der.dropFirst(2)
        var numbers: [UInt8] = []
        for _ in 0..<2 {
            let count = Int(rest[rest.startIndex + 1])
            let digits = rest.dropFirst(2).prefix(count).drop { $0 == 0 }
            numbers += [UInt8](repeating: 0, count: 32 - digits.count) + digits
            rest = rest.dropFirst(2 + count)
        }
        return numbers
    }
}
