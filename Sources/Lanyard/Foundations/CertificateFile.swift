import CLanyard.OpenSSL

/// A file of certificates in PEM, checked before any peer is trusted because of it.
package enum CertificateFile {
    /// Bytes of the largest one. Debian's file of all authorities has 220 KiB.
    private static let bytesMax = 4 << 20

    /// Whether a regular file holds at least one certificate and no block that the TLS library rejects.
    ///
    /// It is read as a secret, because the same file may hold the private key.
    package static func hasCertificate(_ path: String) -> Bool {
        guard let content = try? SecretFile.readWhole(path, bytesMax: bytesMax) else { return false }
        return content.secret.withBytes { lanyard_openssl_count_certificates($0.baseAddress, CInt($0.count)) > 0 }
    }
}
