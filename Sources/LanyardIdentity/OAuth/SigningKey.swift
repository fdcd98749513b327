import COpenSSL
import LanyardFoundations
import LanyardSettings

/// A private key that signs JSON Web Tokens (RFC 7515).
struct SigningKey: ~Copyable {
    /// Why a file holds no key that can sign. A type of its own: the caller knows the file's name.
    enum KeyError: Error, Equatable {
        /// No private key in PEM.
        case notAKey
        /// The key is encrypted, and Lanyard has no passphrase.
        case encrypted
        /// Another kind of key than the algorithm needs.
        case unfit(SigningAlgorithm)
        /// An RSA key of less than 2048 bits (RFC 7518 §3.3).
        case weak

        /// Follows the name of the file.
        var message: String {
            switch self {
            case .notAKey: "holds no private key in PEM"
            case .encrypted: "holds a key with a passphrase; write it without one (openssl pkey -in FILE -out FILE)"
            case .unfit(let algorithm): "holds no \(Self.kind(algorithm)), which \(algorithm.rawValue) needs"
            case .weak: "holds an RSA key of less than 2048 bits"
            }
        }

        private static func kind(_ algorithm: SigningAlgorithm) -> String {
            switch algorithm.scheme {
            case .rsa, .rsaPSS: "RSA key"
            case .ecdsa(let curve): "key on the curve \(curve.name)"
            case .edDSA: "key on the curve Ed25519 or Ed448"
            }
        }
    }

    private let key: OpenSSLReference<OpenSSLKey>
    private let algorithm: SigningAlgorithm
    /// Base64url of the SHA-256 of the certificate in the same file (RFC 7515 §4.1.8); nil: there is none.
    let certificateThumbprint: String?

    /// - Parameter pem: the key, and perhaps its certificate.
    init(_ pem: Secret, for algorithm: SigningAlgorithm) throws(KeyError) {
        let text = PEMText.normalized(pem)
        guard let raw = text.withBytes({ Self.readKey($0) }) else {
            throw text.withBytes { Self.isEncrypted($0) } ? .encrypted : .notAKey
        }
        let key = OpenSSLReference<OpenSSLKey>(taking: raw)
        if let error = Self.error(of: key.raw, for: algorithm) { throw error }
        self.key = key
        self.algorithm = algorithm
        certificateThumbprint = text.withBytes { Self.thumbprint(in: $0) }
    }

    /// Why the key cannot sign by the algorithm; nil: it can.
    private static func error(of key: OpaquePointer, for algorithm: SigningAlgorithm) -> KeyError? {
        let kind = EVP_PKEY_get_base_id(key)
        switch algorithm.scheme {
        case .ecdsa(let curve): return kind == EVP_PKEY_EC && isOn(curve, key) ? nil : .unfit(algorithm)
        case .edDSA: return kind == EVP_PKEY_ED25519 || kind == EVP_PKEY_ED448 ? nil : .unfit(algorithm)
        case .rsa, .rsaPSS:
            guard kind == EVP_PKEY_RSA else { return .unfit(algorithm) }
            return EVP_PKEY_get_bits(key) >= 2048 ? nil : .weak
        }
    }

    /// The signature of `text` as a JWS has it; nil: OpenSSL failed, as when memory is short.
    func signature(of text: UnsafeRawBufferPointer) -> [UInt8]? {
        ERR_clear_error()
        guard let context = EVP_MD_CTX_new() else { return nil }
        defer { EVP_MD_CTX_free(context) }
        var keyContext: OpaquePointer?
        guard EVP_DigestSignInit(context, &keyContext, algorithm.hash, nil, key.raw) == 1 else { return nil }
        if case .rsaPSS(let hashBytes) = algorithm.scheme {
            // RFC 7518 §3.5: the salt is as long as the hash.
            guard EVP_PKEY_CTX_set_rsa_padding(keyContext, RSA_PKCS1_PSS_PADDING) == 1,
                EVP_PKEY_CTX_set_rsa_pss_saltlen(keyContext, hashBytes) == 1
            else { return nil }
        }
        let start = text.baseAddress?.assumingMemoryBound(to: UInt8.self)
        var count = 0
        guard EVP_DigestSign(context, nil, &count, start, text.count) == 1 else { return nil }
        var signature = [UInt8](repeating: 0, count: count)
        guard EVP_DigestSign(context, &signature, &count, start, text.count) == 1 else { return nil }
        signature.removeLast(signature.count - count)
        if case .ecdsa(let curve) = algorithm.scheme { return Self.joined(signature, curve.numberBytes) }
        return signature
    }

    /// The two numbers of an ECDSA signature, each as long as the curve's (RFC 7518 §3.4), in place of DER.
    private static func joined(_ der: [UInt8], _ numberBytes: CInt) -> [UInt8]? {
        der.withUnsafeBufferPointer { bytes in
            var next = bytes.baseAddress
            guard let parts = d2i_ECDSA_SIG(nil, &next, bytes.count) else { return nil }
            defer { ECDSA_SIG_free(parts) }
            var joined = [UInt8](repeating: 0, count: 2 * Int(numberBytes))
            let isWritten = joined.withUnsafeMutableBufferPointer { room in
                let second = room.baseAddress! + Int(numberBytes)
                return BN_bn2binpad(ECDSA_SIG_get0_r(parts), room.baseAddress, numberBytes) == numberBytes
                    && BN_bn2binpad(ECDSA_SIG_get0_s(parts), second, numberBytes) == numberBytes
            }
            return isWritten ? joined : nil
        }
    }

    // MARK: Reading

    private static func withInput<Result>(_ bytes: UnsafeRawBufferPointer, _ body: (OpaquePointer) -> Result?)
        -> Result?
    {
        ERR_clear_error()
        defer { ERR_clear_error() }
        guard let input = BIO_new_mem_buf(bytes.baseAddress, CInt(bytes.count)) else { return nil }
        defer { BIO_free(input) }
        return body(input)
    }

    private static func readKey(_ bytes: UnsafeRawBufferPointer) -> OpaquePointer? {
        // A callback that gives no passphrase: otherwise OpenSSL asks for one on the terminal.
        withInput(bytes) { PEM_read_bio_PrivateKey($0, nil, { _, _, _, _ in -1 }, nil) }
    }

    /// Of the first certificate of a file, which is the client's own; nil: there is none.
    static func thumbprint(of pem: Secret) -> String? { PEMText.normalized(pem).withBytes { thumbprint(in: $0) } }

    private static func thumbprint(in bytes: UnsafeRawBufferPointer) -> String? {
        withInput(bytes) { input in
            guard let certificate = PEM_read_bio_X509(input, nil, { _, _, _, _ in -1 }, nil) else { return nil }
            defer { X509_free(certificate) }
            var digest = [UInt8](repeating: 0, count: 32)
            var count: CUnsignedInt = 0
            guard X509_digest(certificate, EVP_sha256(), &digest, &count) == 1, count == 32 else { return nil }
            return digest.withUnsafeBytes { Base64.urlText($0) }
        }
    }

    private static func isEncrypted(_ bytes: UnsafeRawBufferPointer) -> Bool {
        let marks = ["-----BEGIN ENCRYPTED PRIVATE KEY-----", "Proc-Type: 4,ENCRYPTED"]
        return bytes.split(separator: UInt8(ascii: "\n")).contains { line in
            marks.contains { line.starts(with: $0.utf8) }
        }
    }

    private static func isOn(_ curve: SigningAlgorithm.Curve, _ key: OpaquePointer) -> Bool {
        var name = [CChar](repeating: 0, count: 64)
        var count = 0
        guard EVP_PKEY_get_utf8_string_param(key, "group", &name, name.count, &count) == 1 else { return false }
        return name.prefix(count).elementsEqual(curve.group.utf8.map { CChar($0) })
    }
}

extension SigningAlgorithm {
    /// A curve of RFC 7518 §3.4.
    fileprivate struct Curve {
        let name: String
        /// OpenSSL's name.
        let group: String
        /// Bytes of a number of its group.
        let numberBytes: CInt

        static let p256 = Curve(name: "P-256", group: "prime256v1", numberBytes: 32)
        static let p384 = Curve(name: "P-384", group: "secp384r1", numberBytes: 48)
        static let p521 = Curve(name: "P-521", group: "secp521r1", numberBytes: 66)
    }

    /// What the key must be, and how it signs.
    fileprivate enum Scheme {
        case rsa
        /// - hashBytes: of the hash and of the salt.
        case rsaPSS(hashBytes: CInt)
        case ecdsa(Curve)
        case edDSA
    }

    fileprivate var scheme: Scheme {
        switch self {
        case .rs256, .rs384, .rs512: .rsa
        case .ps256: .rsaPSS(hashBytes: 32)
        case .ps384: .rsaPSS(hashBytes: 48)
        case .ps512: .rsaPSS(hashBytes: 64)
        case .es256: .ecdsa(.p256)
        case .es384: .ecdsa(.p384)
        case .es512: .ecdsa(.p521)
        case .edDSA: .edDSA
        }
    }

    /// nil: the scheme hashes by itself.
    fileprivate var hash: OpaquePointer? {
        switch self {
        case .rs256, .ps256, .es256: EVP_sha256()
        case .rs384, .ps384, .es384: EVP_sha384()
        case .rs512, .ps512, .es512: EVP_sha512()
        case .edDSA: nil
        }
    }
}
