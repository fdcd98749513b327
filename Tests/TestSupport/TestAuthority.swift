import COpenSSL

/// A certificate authority in memory. It makes certificates of every kind that a test of TLS needs, without a process.
package final class TestAuthority: @unchecked Sendable {
    /// A certificate and its key, as PEM.
    package struct Issued: Sendable {
        /// One certificate, without its authority's.
        package let certificate: String
        package let key: String

        package init(certificate: String, key: String) {
            self.certificate = certificate
            self.key = key
        }
    }

    package enum KeyKind: Sendable {
        case p256
        /// RSA; 1024 bits are too weak for a context.
        case rsa(bits: CInt)
    }

    /// Its own certificate.
    package let pem: String
    private let certificate: OpaquePointer
    private let key: OpaquePointer

    /// - Parameters:
    ///   - parent: signs it; nil: it signs itself.
    ///   - isAuthority: false: a certificate that may sign nothing, and still signs.
    ///   - from, to: seconds from now.
    package init(
        _ name: String = "Test authority", under parent: TestAuthority? = nil, isAuthority: Bool = true,
        from: Int = -3600, to: Int = 30 * 86_400
    ) {
        key = Self.makeKey(.p256)
        let extensions: [(CInt, String)] = [
            (NID_basic_constraints, isAuthority ? "critical,CA:TRUE" : "critical,CA:FALSE"),
            (NID_subject_key_identifier, "hash"),
        ]
        let certificate = Self.make(
            name, key, extensions, from: from, to: to, issuer: parent.map { ($0.certificate, $0.key) })
        self.certificate = certificate
        pem = Self.write { PEM_write_bio_X509($0, certificate) }
    }

    deinit {
        X509_free(certificate)
        EVP_PKEY_free(key)
    }

    /// Makes a certificate.
    ///
    /// - Parameters:
    ///   - names: subject alternative names in OpenSSL's notation (`DNS:localhost,IP:127.0.0.1`); empty: none.
    ///   - commonName: the subject.
    ///   - purpose: the extended key usage; empty: any.
    ///   - from, to: seconds from now.
    ///   - password: encrypts the key.
    package func issue(
        _ names: String = "DNS:localhost", commonName: String = "leaf", purpose: String = "", from: Int = -3600,
        to: Int = 30 * 86_400, password: String? = nil, key kind: KeyKind = .p256
    ) -> Issued {
        let key = Self.makeKey(kind)
        defer { EVP_PKEY_free(key) }
        var extensions: [(CInt, String)] = [(NID_basic_constraints, "CA:FALSE")]
        if !names.isEmpty { extensions.append((NID_subject_alt_name, names)) }
        if !purpose.isEmpty { extensions.append((NID_ext_key_usage, purpose)) }
        let leaf = Self.make(commonName, key, extensions, from: from, to: to, issuer: (certificate, self.key))
        defer { X509_free(leaf) }
        let text = Self.write { bio in
            guard let password else { return PEM_write_bio_PKCS8PrivateKey(bio, key, nil, nil, 0, nil, nil) }
            return password.withCString {
                PEM_write_bio_PKCS8PrivateKey(bio, key, EVP_aes_256_cbc(), $0, CInt(password.utf8.count), nil, nil)
            }
        }
        return Issued(certificate: Self.write { PEM_write_bio_X509($0, leaf) }, key: text)
    }

    // MARK: Making

    private static func makeKey(_ kind: KeyKind) -> OpaquePointer {
        var key: OpaquePointer?
        let context: OpaquePointer?
        switch kind {
        case .p256:
            context = EVP_PKEY_CTX_new_id(EVP_PKEY_EC, nil)
            precondition(EVP_PKEY_keygen_init(context) == 1)
            precondition(EVP_PKEY_CTX_set_ec_paramgen_curve_nid(context, NID_X9_62_prime256v1) == 1)
        case .rsa(let bits):
            context = EVP_PKEY_CTX_new_id(EVP_PKEY_RSA, nil)
            precondition(EVP_PKEY_keygen_init(context) == 1)
            precondition(EVP_PKEY_CTX_set_rsa_keygen_bits(context, bits) == 1)
        }
        defer { EVP_PKEY_CTX_free(context) }
        precondition(EVP_PKEY_keygen(context, &key) == 1)
        return key!
    }

    private static func make(
        _ name: String, _ key: OpaquePointer, _ extensions: [(CInt, String)], from: Int, to: Int,
        issuer: (certificate: OpaquePointer, key: OpaquePointer)?
    ) -> OpaquePointer {
        let new = X509_new()!
        X509_set_version(new, 2)
        ASN1_INTEGER_set(X509_get_serialNumber(new), Int.random(in: 1..<(1 << 60)))
        X509_gmtime_adj(X509_getm_notBefore(new), from)
        X509_gmtime_adj(X509_getm_notAfter(new), to)
        X509_set_pubkey(new, key)
        // 0x1001 is MBSTRING_ASC.
        X509_NAME_add_entry_by_txt(X509_get_subject_name(new), "CN", 0x1001, name, -1, -1, 0)
        X509_set_issuer_name(new, X509_get_subject_name(issuer?.certificate ?? new))
        var context = v3_ext_ctx()
        X509V3_set_ctx(&context, issuer?.certificate ?? new, new, nil, nil, 0)
        for (kind, value) in extensions {
            let added = X509V3_EXT_conf_nid(nil, &context, kind, value)
            precondition(added != nil, "no such extension: \(value)")
            X509_add_ext(new, added, -1)
            X509_EXTENSION_free(added)
        }
        precondition(X509_sign(new, issuer?.key ?? key, EVP_sha256()) > 0)
        return new
    }

    private static func write(_ body: (OpaquePointer) -> CInt) -> String {
        let bio = BIO_new(BIO_s_mem())!
        defer { BIO_free(bio) }
        precondition(body(bio) == 1)
        var bytes = [UInt8](repeating: 0, count: BIO_ctrl_pending(bio))
        let count = BIO_read(bio, &bytes, CInt(bytes.count))
        return String(decoding: bytes.prefix(Int(max(count, 0))), as: UTF8.self)
    }
}
