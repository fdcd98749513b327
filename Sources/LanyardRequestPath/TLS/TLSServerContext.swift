import COpenSSL
import LanyardFoundations
import LanyardSettings

/// How a listener accepts connections: which certificate it shows, and whose certificates it demands. Shared by all shards.
///
/// Immutable. A changed file makes a new context. Connections keep the one that they began with.
package final class TLSServerContext: Sendable {
    private let context: OpenSSLReference<OpenSSLContext>
    var raw: OpaquePointer { context.raw }
    let clientNames: TLSClientNames
    let tickets: TLSTicketKeys
    let demandsCertificates: Bool
    /// Of each certificate that is trusted to have issued a client's; nil: none is asked for.
    let authorityDigests: Set<[UInt8]>?
    let clock: @Sendable () -> Instant
    let wallClock: @Sendable () -> WallTime
    /// When the first certificate of the listener's chain ends.
    package let expiresAt: WallTime

    /// - Parameters:
    ///   - clientAuthorities: clients must have a certificate of one of them; nil: none is asked for.
    ///   - clientNames: the names of the clients that may call; empty: all of them. The handshake with another client succeeds, so that its
    ///     requests can be refused with a reason.
    ///   - protocols: those that a client may agree on by ALPN.
    ///   - tickets: the keys of session tickets, which outlive a context.
    ///   - certificateBytesMax: of a client's certificates.
    ///   - clock: gives the age of sessions.
    ///   - wallClock: the time at which certificates are verified, and at which those of a resumed session must be valid.
    /// - Throws: `tooWeak`: the configured key pair is at fault; `noMemory`: the machine is.
    package init(
        _ keyPair: TLSKeyPair, clientAuthorities: TLSAuthorities? = nil, clientNames: TLSClientNames? = nil,
        protocols: ListenerSettings.Protocols = .all, tickets: TLSTicketKeys,
        certificateBytesMax: Int = LimitSettings().certificateBytesMax,
        clock: @escaping @Sendable () -> Instant = { .now },
        wallClock: @escaping @Sendable () -> WallTime = { .now }
    ) throws(TLSFileError) {
        guard let raw = lanyard_tls_new_context(1) else { throw .noMemory }
        context = OpenSSLReference(taking: raw)
        self.clientNames = clientNames ?? TLSClientNames([])!
        self.tickets = tickets
        self.clock = clock
        self.wallClock = wallClock
        demandsCertificates = clientAuthorities != nil
        authorityDigests = clientAuthorities.map { Set($0.certificates.digests) }
        expiresAt = keyPair.chain.expiresAt
        try keyPair.install(in: raw)
        lanyard_tls_select_http(
            raw, CInt((protocols.http1 ? LANYARD_TLS_HTTP1 : 0) | (protocols.http2 ? LANYARD_TLS_HTTP2 : 0)))
        // A client that was not asked for certificates sends none.
        let chainBytesMax = clientAuthorities == nil ? 0 : certificateBytesMax
        SSL_CTX_ctrl(raw, SSL_CTRL_SET_MAX_CERT_LIST, chainBytesMax, nil)
        if let clientAuthorities {
            SSL_CTX_set1_cert_store(raw, clientAuthorities.store)
            SSL_CTX_set_verify(raw, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nil)
            lanyard_tls_verify_chains(raw)
            for certificate in clientAuthorities.certificates.all { SSL_CTX_add_client_CA(raw, certificate) }
        }
        try separateSessions(clientAuthorities)
        SSL_CTX_set_num_tickets(raw, 1)
        SSL_CTX_set_tlsext_ticket_key_evp_cb(raw) { ssl, name, iv, cipher, mac, encrypts in
            guard let ssl, let name, let iv, let owner = TLSSession.owner(of: ssl) else { return -1 }
            let result = owner.ticketKeys?.protect(name, iv, cipher, mac, encrypts: encrypts == 1) ?? -1
            // A ticket of TLS 1.3 is used once: the client needs another one (RFC 8446 C.4).
            return encrypts == 0 && result == 1 && SSL_version(ssl) >= TLS1_3_VERSION ? 2 : result
        }
        // It tells the client how long a ticket may be used.
        SSL_CTX_set_timeout(raw, Int(TLSVerification.ageMax.nanoseconds / 1_000_000_000))
        SSL_CTX_set_session_ticket_cb(
            raw,
            { ssl, _ in
                guard let ssl, let owner = TLSSession.owner(of: ssl) else { return 0 }
                return owner.recordVerificationInTicket() ? 1 : 0
            },
            { ssl, session, _, _, status, _ in
                guard status == SSL_TICKET_SUCCESS || status == SSL_TICKET_SUCCESS_RENEW, let ssl, let session,
                    let owner = TLSSession.owner(of: ssl), owner.mayResume(session)
                else { return SSL_TICKET_RETURN_IGNORE_RENEW }
                return status == SSL_TICKET_SUCCESS ? SSL_TICKET_RETURN_USE : SSL_TICKET_RETURN_USE_RENEW
            }, nil)
    }

    /// Whether each client that the other context has admitted would be admitted by this one: no authority is removed and no name.
    func admitsClients(of other: TLSServerContext) -> Bool {
        guard let authorityDigests else { return true }
        guard let others = other.authorityDigests else { return false }
        return others.isSubset(of: authorityDigests) && other.clientNames.fingerprint == clientNames.fingerprint
    }

    /// A session that was agreed under other client authorities or names is not resumed.
    private func separateSessions(_ authorities: TLSAuthorities?) throws(TLSFileError) {
        let text = (authorities?.digest ?? []) + Array(clientNames.fingerprint.utf8)
        let digest = [UInt8](unsafeUninitializedCapacity: Int(SHA256_DIGEST_LENGTH)) { room, count in
            SHA256(text, text.count, room.baseAddress)
            count = Int(SHA256_DIGEST_LENGTH)
        }
        guard SSL_CTX_set_session_id_context(raw, digest, CUnsignedInt(digest.count)) == 1 else { throw .noMemory }
    }
}
