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
    let hasKeyPair: Bool
    /// From when on all certificates of the client's chain are valid, and when the first of them ends; nil: there is no chain.
    let validity: (from: WallTime, until: WallTime)?
    /// False: every certificate is accepted.
    let verifiesCertificates: Bool
    let sessions: TLSSessionCache

    /// - Parameters:
    ///   - name: the name that the upstream's certificate must have.
    ///   - authorities: nil: no certificate is trusted, unless `skipsVerification`.
    ///   - keyPair: the client certificate.
    ///   - skipsVerification: every certificate is accepted (`unsafe_skip_verify`).
    ///   - clock: gives the age of sessions.
    ///   - wallClock: says when a certificate of a resumed session has ended.
    package init(
        verifying name: TLSServerName, authorities: TLSAuthorities?, keyPair: TLSKeyPair? = nil,
        skipsVerification: Bool = false, clock: @escaping @Sendable () -> Instant = { .now },
        wallClock: @escaping @Sendable () -> WallTime = { .now }
    ) throws(TLSFileError) {
        guard let raw = lanyard_tls_new_context(0) else { throw .noMemory }
        self.raw = raw
        hasKeyPair = keyPair != nil
        validity = keyPair.map { ($0.chain.validFrom, $0.chain.expiresAt) }
        verifiesCertificates = !skipsVerification
        sessions = TLSSessionCache(refusesEndedCertificates: !skipsVerification, clock: clock, wallClock: wallClock)
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
    /// When the upstream was last verified in a full handshake. A session that came over a resumed connection has the instant of the
    /// session that was resumed.
    let verifiedAt: Instant

    /// Takes over the caller's reference.
    init(taking raw: OpaquePointer, verifiedAt: Instant) {
        self.raw = raw
        self.verifiedAt = verifiedAt
    }

    deinit { SSL_SESSION_free(raw) }

    /// Sessions of TLS 1.3 are used once (RFC 8446 C.4).
    var isUsedOnce: Bool { SSL_SESSION_get_protocol_version(raw) >= TLS1_3_VERSION }

    /// The upstream's certificate has ended since.
    func hasEndedCertificate(at time: WallTime) -> Bool {
        SSL_SESSION_get0_peer(raw).map { TLSCertificates.hasEnded($0, at: time) } ?? false
    }
}

/// Sessions of one upstream, of all shards. The lock is taken when a connection begins and when a ticket arrives, not for a request.
final class TLSSessionCache: Sendable {
    /// More than that many connections seldom begin at once.
    static let sessionsMax = 32
    /// A resumed session is not verified again. So a certificate that is replaced or no longer trusted is noticed within this time of
    /// the last full handshake. Each resumed connection of TLS 1.3 brings new sessions, so the time of their arrival has no end.
    private static let ageMax = Duration.seconds(3600)

    private let sessions = Guarded<[TLSResumption]>([])
    private let refusesEndedCertificates: Bool
    let clock: @Sendable () -> Instant
    let wallClock: @Sendable () -> WallTime

    init(
        refusesEndedCertificates: Bool, clock: @escaping @Sendable () -> Instant,
        wallClock: @escaping @Sendable () -> WallTime
    ) {
        self.refusesEndedCertificates = refusesEndedCertificates
        self.clock = clock
        self.wallClock = wallClock
    }

    var count: Int { sessions.withLock { $0.count } }

    func add(_ session: TLSResumption) {
        sessions.withLock { sessions in
            if sessions.count == Self.sessionsMax { sessions.removeFirst() }
            sessions.append(session)
        }
    }

    /// The newest session that may be resumed. A session whose certificate has ended is not offered: the upstream may have a new
    /// certificate, which only a full handshake shows.
    func newestUsable() -> TLSResumption? {
        let (now, wallTime) = (clock(), wallClock())
        return sessions.withLock { sessions in
            while let newest = sessions.last {
                let isUsable =
                    newest.verifiedAt + Self.ageMax > now
                    && !(refusesEndedCertificates && newest.hasEndedCertificate(at: wallTime))
                if newest.isUsedOnce || !isUsable { sessions.removeLast() }
                if isUsable { return newest }
            }
            return nil
        }
    }
}
