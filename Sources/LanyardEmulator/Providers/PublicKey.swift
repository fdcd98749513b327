import COpenSSL

/// An RSA or P-256 public key. OpenSSL allows any number of threads to verify with one key.
final class PublicKey: @unchecked Sendable {
    enum Kind: Equatable { case rsa(bits: Int), p256 }

    private let key: OpaquePointer
    let kind: Kind

    /// Takes ownership of an `EVP_PKEY`. nil: it is neither RSA nor P-256.
    private init?(_ key: OpaquePointer) {
        self.key = key
        switch EVP_PKEY_get_base_id(key) {
        case EVP_PKEY_RSA: kind = .rsa(bits: Int(EVP_PKEY_get_bits(key)))
        case EVP_PKEY_EC where Self.group(of: key) == "prime256v1": kind = .p256
        default:
            kind = .p256
            return nil
        }
    }

    deinit { EVP_PKEY_free(key) }

    private static func group(of key: OpaquePointer) -> String {
        var name = [CChar](repeating: 0, count: 80)
        var count = 0
        guard EVP_PKEY_get_group_name(key, &name, name.count, &count) == 1 else { return "" }
        return String(decoding: name.prefix(count).map(UInt8.init(bitPattern:)), as: UTF8.self)
    }

    /// A PEM block with a public key or a certificate.
    static func read(pem: String) -> PublicKey? {
        func block(_ read: (OpaquePointer) -> OpaquePointer?) -> OpaquePointer? {
            Array(pem.utf8).withUnsafeBytes { bytes in
                guard let input = BIO_new_mem_buf(bytes.baseAddress, CInt(bytes.count)) else { return nil }
                defer { BIO_free(input) }
                return read(input)
            }
        }
        defer { ERR_clear_error() }
        if let key = block({ PEM_read_bio_PUBKEY($0, nil, nil, nil) }) { return PublicKey(key) }
        let key = block { input in
            guard let certificate = PEM_read_bio_X509(input, nil, nil, nil) else { return nil }
            defer { X509_free(certificate) }
            return X509_get_pubkey(certificate)
        }
        return key.flatMap { PublicKey($0) }
    }

    /// - Parameters:
    ///   - modulus: big-endian bytes.
    ///   - exponent: big-endian bytes.
    static func rsa(modulus: [UInt8], exponent: [UInt8]) -> PublicKey? {
        // SubjectPublicKeyInfo (RFC 5280 §4.1.2.7) of rsaEncryption (RFC 8017 §A.1).
        let numbers = DER.sequence(DER.integer(modulus) + DER.integer(exponent))
        let algorithm = DER.sequence([0x06, 0x09, 0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x01, 0x01, 0x01, 0x05, 0x00])
        return read(der: DER.sequence(algorithm + DER.bitString(numbers)))
    }

    /// - Parameters:
    ///   - x: 32 bytes.
    ///   - y: 32 bytes.
    static func p256(x: [UInt8], y: [UInt8]) -> PublicKey? {
        guard x.count == 32, y.count == 32 else { return nil }
        // id-ecPublicKey and prime256v1 (RFC 5480 §2.1.1), then the uncompressed point.
        let algorithm = DER.sequence([
            0x06, 0x07, 0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x02, 0x01,
            0x06, 0x08, 0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x03, 0x01, 0x07,
        ])
        return read(der: DER.sequence(algorithm + DER.bitString([4] + x + y)))
    }

    private static func read(der: [UInt8]) -> PublicKey? {
        defer { ERR_clear_error() }
        return der.withUnsafeBufferPointer { buffer in
            var start = buffer.baseAddress
            return d2i_PUBKEY(nil, &start, buffer.count).flatMap { PublicKey($0) }
        }
    }

    /// Whether a signature over SHA-256 is valid: PKCS #1 v1.5 for RSA; for P-256 DER with two numbers.
    func verifies(_ signature: [UInt8], of bytes: [UInt8]) -> Bool {
        defer { ERR_clear_error() }
        guard let context = EVP_MD_CTX_new() else { return false }
        defer { EVP_MD_CTX_free(context) }
        guard EVP_DigestVerifyInit(context, nil, EVP_sha256(), nil, key) == 1 else { return false }
        return EVP_DigestVerify(context, signature, signature.count, bytes, bytes.count) == 1
    }
}

/// The few parts of DER (X.690) that keys and signatures need.
enum DER {
    static func sequence(_ content: [UInt8]) -> [UInt8] { value(0x30, content) }
    static func bitString(_ content: [UInt8]) -> [UInt8] { value(0x03, [0] + content) }

    /// A number that is not negative, from big-endian bytes.
    static func integer(_ bytes: [UInt8]) -> [UInt8] {
        var digits = Array(bytes.drop { $0 == 0 })
        if digits.isEmpty || digits[0] >= 0x80 { digits.insert(0, at: 0) }
        return value(0x02, digits)
    }

    private static func value(_ tag: UInt8, _ content: [UInt8]) -> [UInt8] {
        switch content.count {
        case ..<0x80: [tag, UInt8(content.count)] + content
        case ..<0x100: [tag, 0x81, UInt8(content.count)] + content
        default: [tag, 0x82, UInt8(content.count >> 8 & 0xFF), UInt8(content.count & 0xFF)] + content
        }
    }
}
