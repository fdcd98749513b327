import COpenSSL

/// Why a TLS connection did not come about, or ended early. Both sides use it: towards an upstream and towards a client.
///
/// A type of its own, because the problem, the log and the metric tell its cases apart.
package enum TLSError: Error, Equatable, Sendable {
    /// The other end of a connection, for messages.
    package enum Peer: String, Sendable { case upstream, client }

    // The peer's certificate.

    /// No trusted authority has issued it, or the chain has a gap.
    case unknownAuthority
    /// It is for another host.
    case nameMismatch
    case expired
    case notYetValid
    /// It may not be used for this: a client's certificate at a server, or the opposite.
    case wrongPurpose
    /// Another reason; the value is an `X509_V_ERR_…` of OpenSSL.
    case verificationFailed(CInt)
    /// The client has sent none, and the listener demands one.
    case certificateMissing

    // This side's certificate.

    /// The peer has refused it; the value is its alert (RFC 8446 6.2).
    case certificateRefused(alert: UInt8)
    /// The peer demands one, and none is configured.
    case certificateRequired

    // What the two sides have in common.

    /// TLS 1.2 or newer on neither side.
    case noSharedVersion
    case noSharedCipher
    /// The client offers protocols by ALPN, without `http/1.1`; or the upstream has chosen another one.
    case noSharedProtocol

    // The connection.

    /// The peer's first bytes are HTTP without TLS.
    case plainHTTP
    /// The peer has closed the connection during the handshake.
    case closedInHandshake
    /// The connection has ended without a `close_notify`: bytes may be missing.
    case truncated
    /// The value is `errno`.
    case reset(CInt)
    case timedOut
    /// The peer sends messages that carry no data, more than a connection needs: key updates, renegotiations, alerts.
    case tooManyMessages
    /// The upstream asks to renegotiate TLS 1.2, which Lanyard refuses. Servers do so that ask for a client certificate
    /// for some paths only.
    case renegotiationRefused
    /// The client's first message claims more bytes than any client needs.
    case helloTooLong
    /// The client is closed in its handshake, because a shard has as many handshakes, or the process as many clients, as it
    /// may have.
    case tooManyHandshakes
    /// The client is closed in its handshake, because the listener does not admit the same clients any more.
    case admissionChanged
    /// Another fatal alert of the peer (RFC 8446 6).
    case alert(UInt8)
    /// Bytes that are not TLS, or break its rules; the value is OpenSSL's error code.
    case protocolViolation(UInt)

    /// The word for logs and metrics. One word for each case: labels stay few.
    package var label: String {
        switch self {
        case .unknownAuthority: "unknown_authority"
        case .nameMismatch: "name_mismatch"
        case .expired: "expired"
        case .notYetValid: "not_yet_valid"
        case .wrongPurpose: "wrong_purpose"
        case .verificationFailed: "verification_failed"
        case .certificateMissing: "certificate_missing"
        case .certificateRefused: "certificate_refused"
        case .certificateRequired: "certificate_required"
        case .noSharedVersion: "no_shared_version"
        case .noSharedCipher: "no_shared_cipher"
        case .noSharedProtocol: "no_shared_protocol"
        case .plainHTTP: "plain_http"
        case .closedInHandshake: "closed_in_handshake"
        case .truncated: "truncated"
        case .reset: "reset"
        case .timedOut: "timed_out"
        case .tooManyMessages: "too_many_messages"
        case .renegotiationRefused: "renegotiation_refused"
        case .helloTooLong: "hello_too_long"
        case .tooManyHandshakes: "too_many_handshakes"
        case .admissionChanged: "admission_changed"
        case .alert: "alert"
        case .protocolViolation: "protocol_violation"
        }
    }

    /// The peer's certificate is at fault, or the trust that is configured.
    package var isCertificate: Bool {
        switch self {
        case .unknownAuthority, .nameMismatch, .expired, .notYetValid, .wrongPurpose, .verificationFailed,
            .certificateMissing:
            true
        default: false
        }
    }

    /// Another attempt fails as well, until an operator has changed a certificate, a key or a setting on one of the two sides.
    package var needsOperator: Bool {
        switch self {
        case .certificateRefused, .certificateRequired, .noSharedVersion, .noSharedCipher, .noSharedProtocol,
            .plainHTTP,
            .renegotiationRefused:
            true
        case _ where isCertificate: true
        default: false
        }
    }

    /// The peer has refused this side, and says why.
    package var isRefusal: Bool {
        switch self {
        case .certificateRefused, .certificateRequired, .renegotiationRefused, .alert: true
        default: false
        }
    }

    /// A listener has told the client why its handshake has failed, by an alert. It tells none that is gone, late or one too many.
    var sendsAlert: Bool {
        switch self {
        case .plainHTTP, .closedInHandshake, .reset, .timedOut, .tooManyHandshakes, .admissionChanged: false
        default: true
        }
    }

    /// One clause that says what has happened, for problems and logs. Of the peer's bytes it has at most the name of a certificate whose
    /// authority is trusted.
    package func message(_ peer: Peer, _ certificate: RefusedCertificate? = nil) -> String {
        text(peer) + (certificate?.words(for: self) ?? "")
    }

    private func text(_ peer: Peer) -> String {
        let it = "the \(peer.rawValue)"
        return switch self {
        case .unknownAuthority: "\(it)'s certificate is not trusted: its authority is unknown"
        case .nameMismatch: "\(it)'s certificate is not trusted: it is for another name"
        case .expired: "\(it)'s certificate is not trusted: it has expired"
        case .notYetValid: "\(it)'s certificate is not trusted: it is not valid yet"
        case .wrongPurpose: "\(it)'s certificate is not trusted: it is for another purpose"
        case .verificationFailed(let code): "\(it)'s certificate is not trusted: \(Self.text(ofVerification: code))"
        case .certificateMissing: "\(it) has sent no certificate"
        case .certificateRefused(let alert): "\(it) refuses Lanyard's certificate (\(Self.text(ofAlert: alert)))"
        case .certificateRequired: "\(it) demands a client certificate, and none is configured"
        case .noSharedVersion: "\(it) does not speak TLS 1.2 or newer"
        case .noSharedCipher: "\(it) and Lanyard have no cipher in common"
        case .noSharedProtocol: "\(it) and Lanyard have no version of HTTP in common over TLS"
        case .plainHTTP: "\(it) speaks HTTP without TLS"
        case .closedInHandshake: "\(it) has closed the connection during the TLS handshake"
        case .truncated: "\(it) has ended the connection without a TLS close_notify"
        case .reset(let code): "\(it) has broken the TLS connection (errno \(code))"
        case .timedOut: "\(it) has not completed the TLS handshake in time"
        case .tooManyMessages: "\(it) sends too many TLS messages without data"
        case .renegotiationRefused:
            "\(it) asks to renegotiate TLS 1.2, which Lanyard refuses; for a late client certificate it has to speak TLS 1.3"
        case .helloTooLong: "\(it) announces a TLS hello of more than 16 KiB"
        case .tooManyHandshakes: "\(it) has been closed in its TLS handshake: too many handshakes, or clients, at once"
        case .admissionChanged: "\(it) has been closed in its TLS handshake: the listener admits other clients now"
        case .alert(let alert): "\(it) has ended the TLS connection (\(Self.text(ofAlert: alert)))"
        case .protocolViolation(let code): "\(it) breaks the rules of TLS (\(Self.text(ofError: code)))"
        }
    }

    private static func text(ofVerification code: CInt) -> String {
        X509_verify_cert_error_string(Int(code)).map { String(cString: $0) } ?? "error \(code)"
    }

    private static func text(ofAlert alert: UInt8) -> String {
        SSL_alert_desc_string_long(CInt(alert)).map { "alert \(alert), \(String(cString: $0))" } ?? "alert \(alert)"
    }

    private static func text(ofError code: UInt) -> String {
        ERR_reason_error_string(code).map { String(cString: $0) } ?? "error \(code)"
    }
}
