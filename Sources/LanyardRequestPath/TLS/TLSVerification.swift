import COpenSSL
import LanyardFoundations

/// What the full handshake of a session has verified, and how long the session may be resumed because of it.
///
/// A resumed session is not verified again. So this goes with the session: in a listener's ticket, and beside a session that a client
/// keeps. A session that came over a resumed connection has that of the session which was resumed.
struct TLSVerification {
    /// A certificate that is replaced or no longer trusted is noticed within this time of the full handshake.
    static let ageMax = Duration.seconds(3600)

    /// As OpenSSL's tickets carry it.
    var raw: lanyard_tls_verification

    init(_ raw: lanyard_tls_verification, at instant: Instant) {
        self.raw = raw
        self.raw.verified_at = instant.nanoseconds
    }

    /// Reads the application data of a session; nil: it has none of this kind.
    init?(in session: OpaquePointer) {
        var start: UnsafeMutableRawPointer?
        var count = 0
        guard SSL_SESSION_get0_ticket_appdata(session, &start, &count) == 1, let start,
            count == MemoryLayout<lanyard_tls_verification>.size
        else { return nil }
        raw = start.loadUnaligned(as: lanyard_tls_verification.self)
    }

    /// Makes it the application data of a session. False: there is no memory.
    func write(into session: OpaquePointer) -> Bool {
        withUnsafeBytes(of: raw) { SSL_SESSION_set1_ticket_appdata(session, $0.baseAddress, $0.count) == 1 }
    }

    /// The full handshake is less than an hour old.
    func isRecent(at now: Instant) -> Bool {
        let verifiedAt = Instant(nanoseconds: raw.verified_at)
        return verifiedAt <= now && now < verifiedAt + Self.ageMax
    }

    /// Why the chain would not be verified now; nil: all of its certificates are valid.
    func objection(at time: WallTime) -> TLSError? {
        guard raw.has_chain else { return .certificateMissing }
        if time.seconds >= raw.valid_until { return .expired }
        return time.seconds < raw.valid_from ? .notYetValid : nil
    }
}

/// What a session towards an upstream knows of its handshake.
struct UpstreamVerification {
    /// When this handshake began. It verifies the upstream, unless it resumes a session.
    var beganAt = Instant.never
    /// Of the session that this handshake offers; nil: it offers none.
    var offered: TLSVerification?
    /// What ALPN offers.
    var offer = TLSClientContext.Offer.http1
}
