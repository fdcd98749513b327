import COpenSSL
import LanyardFoundations
import LanyardSettings

/// How connections to one upstream are made: whom to trust, whose name to demand, which certificate to show. Shared by all shards.
///
/// Immutable, except for the sessions that it keeps. A changed file makes a new context, which knows none of the sessions of the old one.
package final class TLSClientContext: Sendable {
    private let context: OpenSSLReference<OpenSSLContext>
    var raw: OpaquePointer { context.raw }
    /// The name for SNI; nil: an address.
    let sentName: String?
    let hasKeyPair: Bool
    /// When the first certificate of the client's chain ends; nil: there is no chain.
    let certificateExpiresAt: WallTime?
    /// False: every certificate is accepted.
    let verifiesCertificates: Bool
    let sessions: TLSSessionCache

    /// The protocols that a connection offers by ALPN.
    package enum Offer {
        case http1, http2, either

        /// As they are on the wire (RFC 7301 §3.1).
        var list: StaticString {
            switch self {
            case .http1: "\u{8}http/1.1"
            case .http2: "\u{2}h2"
            case .either: "\u{2}h2\u{8}http/1.1"
            }
        }

        /// The upstream may choose this; empty: it has chosen nothing, which is not enough for HTTP/2 alone (RFC 9113 §3.3).
        func permits(_ selected: UnsafeBufferPointer<UInt8>) -> Bool {
            switch self {
            case .http1 where selected.isEmpty, .either where selected.isEmpty: true
            case .http1: selected.elementsEqual("http/1.1".utf8)
            case .http2: selected.elementsEqual("h2".utf8)
            case .either: selected.elementsEqual("http/1.1".utf8) || selected.elementsEqual("h2".utf8)
            }
        }

        /// Offers it on one connection, in place of what the context offers.
        ///
        /// - Throws: `.protocolViolation` if there is no memory.
        func install(in ssl: OpaquePointer) throws(TLSError) {
            guard self != .http1 else { return }
            guard SSL_set_alpn_protos(ssl, list.utf8Start, CUnsignedInt(list.utf8CodeUnitCount)) == 0 else {
                throw .protocolViolation(ERR_peek_last_error())
            }
        }
    }

    /// Authorities that an upstream may name when it asks for a certificate. The connection keeps their names. Systems trust 150.
    private static let namedAuthoritiesMax: CInt = 512

    /// - Parameters:
    ///   - name: the name that the upstream's certificate must have.
    ///   - authorities: nil: no certificate is trusted, unless `skipsVerification`.
    ///   - keyPair: the client certificate.
    ///   - skipsVerification: every certificate is accepted (`unsafe_skip_verify`).
    ///   - certificateBytesMax: of the upstream's certificates, and of its request for one.
    ///   - clock: gives the age of sessions.
    ///   - wallClock: the time at which certificates are verified, and at which those of a resumed session must be valid.
    /// - Throws: `badName` or `tooWeak`: the configured name or key pair is at fault; `noMemory`: the machine is.
    package init(
        verifying name: TLSServerName, authorities: TLSAuthorities?, keyPair: TLSKeyPair? = nil,
        skipsVerification: Bool = false, certificateBytesMax: Int = LimitSettings().certificateBytesMax,
        clock: @escaping @Sendable () -> Instant = { .now },
        wallClock: @escaping @Sendable () -> WallTime = { .now }
    ) throws(TLSFileError) {
        guard let raw = lanyard_tls_new_context(0) else { throw .noMemory }
        context = OpenSSLReference(taking: raw)
        hasKeyPair = keyPair != nil
        certificateExpiresAt = keyPair?.chain.expiresAt
        verifiesCertificates = !skipsVerification
        sessions = TLSSessionCache(verifiesCertificates: !skipsVerification, clock: clock, wallClock: wallClock)
        sentName = if case .dns(let text) = name { text } else { nil }
        try name.install(in: raw)
        if let authorities { SSL_CTX_set1_cert_store(raw, authorities.store) }
        SSL_CTX_set_verify(raw, skipsVerification ? SSL_VERIFY_NONE : SSL_VERIFY_PEER, nil)
        lanyard_tls_verify_chains(raw)
        SSL_CTX_ctrl(raw, SSL_CTRL_SET_MAX_CERT_LIST, certificateBytesMax, nil)
        if let keyPair {
            try keyPair.install(in: raw)
            // The upstream may ask for the certificate after the handshake, for some paths only (RFC 8446 4.6.2).
            SSL_CTX_set_post_handshake_auth(raw, 1)
        }
        SSL_CTX_set_info_callback(raw) { ssl, place, value in
            let isRefusal = place == SSL_CB_ALERT | SSL_CB_WRITE && value & 0xff == SSL_AD_NO_RENEGOTIATION
            if isRefusal, let ssl { TLSSession.owner(of: ssl)?.noteRenegotiation() }
        }
        // A connection may offer others.
        let list = Offer.http1.list
        guard SSL_CTX_set_alpn_protos(raw, list.utf8Start, CUnsignedInt(list.utf8CodeUnitCount)) == 0 else {
            throw .noMemory
        }
        lanyard_tls_keep_sessions(raw)
        SSL_CTX_sess_set_new_cb(raw) { ssl, session in
            guard let ssl, let session, let owner = TLSSession.owner(of: ssl) else { return 0 }
            return owner.keep(session) ? 1 : 0
        }
        SSL_CTX_set_cert_cb(
            raw,
            { ssl, _ in
                guard let ssl, let owner = TLSSession.owner(of: ssl) else { return 0 }
                owner.noteCertificateRequest()
                return lanyard_tls_named_authorities(ssl) <= TLSClientContext.namedAuthoritiesMax ? 1 : 0
            }, nil)
    }
}

/// A session that a later connection resumes. Corresponds to an `SSL_SESSION *`. OpenSSL guards what it changes in it.
final class TLSResumption: @unchecked Sendable {
    private let session: OpenSSLReference<OpenSSLSession>
    var raw: OpaquePointer { session.raw }
    /// Of the full handshake that the session goes back to.
    let verification: TLSVerification

    /// Takes over the caller's reference.
    init(taking raw: OpaquePointer, _ verification: TLSVerification) {
        session = OpenSSLReference(taking: raw)
        self.verification = verification
    }

    /// Sessions of TLS 1.3 are used once (RFC 8446 C.4).
    var isUsedOnce: Bool { SSL_SESSION_get_protocol_version(raw) >= TLS1_3_VERSION }
}

/// Sessions of one upstream, of all shards. The lock is taken when a connection begins and when a ticket arrives, not for a request.
final class TLSSessionCache: Sendable {
    /// More than that many connections seldom begin at once.
    static let sessionsMax = 32
    /// Of a session's serialized form. An upstream's ticket may have 64 KiB (RFC 8446 4.6.1). Those of servers have a few.
    static let sessionBytesMax = 8 << 10

    private let sessions = Guarded<[TLSResumption]>([])
    private let verifiesCertificates: Bool
    let clock: @Sendable () -> Instant
    let wallClock: @Sendable () -> WallTime

    init(
        verifiesCertificates: Bool, clock: @escaping @Sendable () -> Instant,
        wallClock: @escaping @Sendable () -> WallTime
    ) {
        self.verifiesCertificates = verifiesCertificates
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

    /// The newest session that may be resumed. A session of whose chain a certificate has ended is not offered: the upstream may have a new
    /// one, which only a full handshake shows.
    func newestUsable() -> TLSResumption? {
        let (now, wallTime) = (clock(), wallClock())
        return sessions.withLock { sessions in
            while let newest = sessions.last {
                let isUsable =
                    newest.verification.isRecent(at: now)
                    && !(verifiesCertificates && newest.verification.objection(at: wallTime) != nil)
                if newest.isUsedOnce || !isUsable { sessions.removeLast() }
                if isUsable { return newest }
            }
            return nil
        }
    }
}
