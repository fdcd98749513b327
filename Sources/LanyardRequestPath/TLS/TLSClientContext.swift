import COpenSSL
import LanyardFoundations

/// How connections to one upstream are made: whom to trust, whose name to demand, which certificate to show. Shared by all shards.
///
/// Immutable, except for the sessions that it keeps. A changed file makes a new context, which knows none of the sessions of the old one.
package final class TLSClientContext: Sendable {
    /// `SSL_CTX *`, with one reference.
    nonisolated(unsafe) let raw: OpaquePointer
    /// The name for SNI; nil: an address.
    let sentName: String?
    /// When the client certificate ends; nil: there is none.
    let certificateExpiresAt: WallTime?
    var hasKeyPair: Bool { certificateExpiresAt != nil }
    let sessions = TLSSessionCache()

    /// - Parameters:
    ///   - name: the name that the upstream's certificate must have.
    ///   - authorities: nil: no certificate is trusted, unless `skipsVerification`.
    ///   - keyPair: the client certificate.
    ///   - skipsVerification: every certificate is accepted (`unsafe_skip_verify`).
    package init(
        verifying name: TLSServerName, authorities: TLSAuthorities?, keyPair: TLSKeyPair? = nil,
        skipsVerification: Bool = false
    ) throws(TLSFileError) {
        guard let raw = lanyard_tls_new_context(0) else { throw .noMemory }
        self.raw = raw
        certificateExpiresAt = keyPair?.chain.expiresAt
        sentName = if case .dns(let text) = name { text } else { nil }
        try name.install(in: raw)
        if let authorities { SSL_CTX_set1_cert_store(raw, authorities.store) }
        SSL_CTX_set_verify(raw, skipsVerification ? SSL_VERIFY_NONE : SSL_VERIFY_PEER, nil)
        try keyPair?.install(in: raw)
        let protocols = [UInt8(8)] + Array("http/1.1".utf8)
        guard SSL_CTX_set_alpn_protos(raw, protocols, CUnsignedInt(protocols.count)) == 0 else { throw .noMemory }
        lanyard_tls_keep_sessions(raw)
        SSL_CTX_sess_set_new_cb(raw) { ssl, session in
            guard let ssl, let session, let owner = TLSSession.owner(of: ssl) else { return 0 }
            owner.keep(session)
            return 1
        }
        SSL_CTX_set_cert_cb(
            raw,
            { ssl, _ in
                if let ssl, let owner = TLSSession.owner(of: ssl) { owner.noteCertificateRequest() }
                return 1
            }, nil)
    }

    deinit { SSL_CTX_free(raw) }
}

/// A session that a later connection resumes. Corresponds to an `SSL_SESSION *`, with one reference. OpenSSL guards what it changes in it.
final class TLSResumption: @unchecked Sendable {
    let raw: OpaquePointer

    /// Takes over the caller's reference.
    init(taking raw: OpaquePointer) { self.raw = raw }

    deinit { SSL_SESSION_free(raw) }

    /// Sessions of TLS 1.3 are used once (RFC 8446 C.4).
    var isUsedOnce: Bool { SSL_SESSION_get_protocol_version(raw) >= TLS1_3_VERSION }
}

/// Sessions of one upstream, of all shards. The lock is taken when a connection begins and when a ticket arrives, not for a request.
final class TLSSessionCache: Sendable {
    /// More than that many connections seldom begin at once.
    static let sessionsMax = 32
    /// A resumed session is not verified again. So a certificate that ends, or is replaced, is noticed within this time.
    private static let ageMax = Duration.seconds(3600)

    private struct Entry {
        let session: TLSResumption
        let since: Instant
    }

    private let entries = Guarded<[Entry]>([])

    var count: Int { entries.withLock { $0.count } }

    func add(_ session: TLSResumption, at now: Instant = .now) {
        entries.withLock { entries in
            if entries.count == Self.sessionsMax { entries.removeFirst() }
            entries.append(Entry(session: session, since: now))
        }
    }

    /// The newest session.
    func take(at now: Instant = .now) -> TLSResumption? {
        entries.withLock { entries in
            guard let newest = entries.last, newest.since + Self.ageMax > now else {
                entries = []
                return nil
            }
            if newest.session.isUsedOnce { entries.removeLast() }
            return newest.session
        }
    }
}
