import COpenSSL
import Glibc
import LanyardFoundations

/// Certificates of one PEM file, in order. Immutable; may cross queues.
///
/// It owns them itself, because an array holds no noncopyable values.
package final class TLSCertificates: @unchecked Sendable {
    /// `X509 *`, each with one reference.
    let all: [OpaquePointer]

    fileprivate init(_ all: [OpaquePointer]) { self.all = all }

    deinit { for certificate in all { X509_free(certificate) } }

    /// Reads a file's content. Blocks of other kinds, such as keys, are skipped.
    ///
    /// - Throws: `empty`, `damaged` or `noCertificate`: the file is at fault; `noMemory`: the machine is.
    package static func read(_ pem: UnsafeRawBufferPointer) throws(TLSFileError) -> TLSCertificates {
        let blocks = try PEMBlocks(pem)
        guard !blocks.certificates.all.isEmpty else { throw .noCertificate }
        return blocks.certificates
    }

    package var count: Int { all.count }

    /// SHA-256 of each.
    var digests: [[UInt8]] {
        all.map { certificate in
            [UInt8](unsafeUninitializedCapacity: Int(SHA256_DIGEST_LENGTH)) { room, count in
                var length = CUnsignedInt(0)
                count = X509_digest(certificate, EVP_sha256(), room.baseAddress, &length) == 1 ? Int(length) : 0
            }
        }
    }

    /// When the first of them ends: the peer verifies all of a chain.
    package var expiresAt: WallTime { all.map { Self.time(X509_get0_notAfter($0)) }.min()! }

    /// When the last of them ends: of authorities, one is enough.
    var lastExpiresAt: WallTime { all.map { Self.time(X509_get0_notAfter($0)) }.max()! }

    /// From when on all of them are valid.
    package var validFrom: WallTime { all.map { Self.time(X509_get0_notBefore($0)) }.max()! }

    /// A time that cannot be read counts as past.
    private static func time(_ time: UnsafePointer<ASN1_TIME>?) -> WallTime {
        let seconds = lanyard_x509_time(time)
        return WallTime(seconds: seconds == Int64.min ? 0 : seconds)
    }
}

/// A chain and the private key of its first certificate. Immutable; may cross queues.
package final class TLSKeyPair: @unchecked Sendable {
    package let chain: TLSCertificates
    private let key: OpenSSLReference<OpenSSLKey>

    /// Reads two files' contents, which may be the same file.
    ///
    /// - Throws: a finding about one of the two files.
    package init(
        chain pem: UnsafeRawBufferPointer, key keyPEM: UnsafeRawBufferPointer
    ) throws(PairError) {
        let chain: TLSCertificates
        do { chain = try TLSCertificates.read(pem) } catch { throw .chain(error) }
        self.chain = chain
        do { key = try Self.readKey(keyPEM) } catch { throw .key(error) }
        let raw = key.raw
        if X509_check_private_key(chain.all[0], raw) != 1 {
            let isLater = chain.all.dropFirst().contains { X509_check_private_key($0, raw) == 1 }
            ERR_clear_error()
            throw isLater ? .chain(.leafNotFirst) : .key(.keyMismatch)
        }
    }

    /// Which of the two files is at fault. A type of its own, because the caller knows the path of each.
    package enum PairError: Error, Equatable, Sendable {
        case chain(TLSFileError)
        case key(TLSFileError)
    }

    private static func readKey(_ pem: UnsafeRawBufferPointer) throws(TLSFileError) -> OpenSSLReference<OpenSSLKey> {
        let blocks = try PEMBlocks(pem)
        if let key = blocks.takeKey() { return key }
        throw blocks.hasLockedKey ? .passwordProtected : .noKey
    }

    /// Makes a context use the pair.
    func install(in context: OpaquePointer) throws(TLSFileError) {
        defer { ERR_clear_error() }
        guard SSL_CTX_use_certificate(context, chain.all[0]) == 1, SSL_CTX_use_PrivateKey(context, key.raw) == 1,
            chain.all.dropFirst().allSatisfy({ lanyard_tls_add_chain(context, $0) == 1 })
        else { throw .tooWeak }
    }
}

/// The blocks of a PEM file.
private final class PEMBlocks {
    let certificates: TLSCertificates
    private var key: OpenSSLReference<OpenSSLKey>?
    let hasLockedKey: Bool

    init(_ pem: UnsafeRawBufferPointer) throws(TLSFileError) {
        guard let start = pem.baseAddress, pem.count > 0 else { throw .empty }
        guard let text = BIO_new_mem_buf(start, CInt(clamping: pem.count)) else { throw .noMemory }
        defer { BIO_free(text) }
        var found: [OpaquePointer] = []
        var key: OpenSSLReference<OpenSSLKey>?
        var (hasLockedKey, isDamaged, isAtEnd) = (false, false, false)
        while !isAtEnd {
            var certificate: OpaquePointer?
            var next: OpaquePointer?
            switch lanyard_pem_next(text, &certificate, &next) {
            case CInt(LANYARD_PEM_CERTIFICATE): found.append(certificate!)
            case CInt(LANYARD_PEM_KEY):
                // The first one counts.
                let found = OpenSSLReference<OpenSSLKey>(taking: next!)
                if key == nil { key = consume found }
            case CInt(LANYARD_PEM_LOCKED_KEY): hasLockedKey = true
            case CInt(LANYARD_PEM_OTHER): continue
            case CInt(LANYARD_PEM_END): isAtEnd = true
            default: (isDamaged, isAtEnd) = (true, true)
            }
        }
        certificates = TLSCertificates(found)
        self.key = key
        self.hasLockedKey = hasLockedKey
        if isDamaged { throw .damaged }
    }

    /// The first key, once.
    func takeKey() -> OpenSSLReference<OpenSSLKey>? { key.take() }
}
