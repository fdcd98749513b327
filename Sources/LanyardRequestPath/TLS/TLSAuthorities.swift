import COpenSSL
import Glibc
import LanyardFoundations

/// The authorities whose certificates are trusted. Read once and shared by contexts. Immutable; may cross queues.
package final class TLSAuthorities: @unchecked Sendable {
    private let reference: OpenSSLReference<OpenSSLStore>
    /// `X509_STORE *`.
    var store: OpaquePointer { reference.raw }
    let certificates: TLSCertificates
    /// A digest of the file: sessions of one set of authorities are not resumed under another one.
    let digest: [UInt8]

    /// Reads the content of a PEM file.
    ///
    /// A certificate of the file is trusted even if it is no root: a private authority is often an intermediate one.
    /// OpenSSL's own folder of authorities is not used, because OpenSSL reads it during a handshake, on the loop.
    ///
    /// - Throws: `empty`, `damaged` or `noCertificate`: the file is at fault; `noMemory`: the machine is.
    package init(_ pem: UnsafeRawBufferPointer) throws(TLSFileError) {
        let certificates = try TLSCertificates.read(pem)
        guard let store = X509_STORE_new() else { throw .noMemory }
        self.certificates = certificates
        reference = OpenSSLReference(taking: store)
        digest = [UInt8](unsafeUninitializedCapacity: Int(SHA256_DIGEST_LENGTH)) { room, count in
            SHA256(pem.baseAddress?.assumingMemoryBound(to: UInt8.self), pem.count, room.baseAddress)
            count = Int(SHA256_DIGEST_LENGTH)
        }
        X509_STORE_set_flags(store, UInt(X509_V_FLAG_PARTIAL_CHAIN))
        defer { ERR_clear_error() }
        guard certificates.all.allSatisfy({ X509_STORE_add_cert(store, $0) == 1 }) else { throw .noMemory }
    }

    /// Where the system's authorities are, the first file that exists: OpenSSL's own place, then those of the distributions.
    /// `SSL_CERT_FILE` has no effect, because the start removes it (`LibraryVariables`).
    package static let systemFiles: [String] =
        (X509_get_default_cert_file().map { [String(cString: $0)] } ?? []) + [
            "/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem",
            "/etc/ssl/ca-bundle.pem",
        ]
}
