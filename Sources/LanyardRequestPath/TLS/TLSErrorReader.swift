import COpenSSL
import Glibc
import LanyardFoundations

/// Finds the cause of a failed call into OpenSSL: in the socket, in the peer's first bytes, in the error queue, in the verification.
struct TLSErrorReader {
    let ssl: OpaquePointer
    let isServer: Bool
    /// The peer has asked this side for a certificate, and none is configured.
    let lacksCertificate: Bool
    let isEstablished: Bool

    /// The cause; nil: the peer has ended the connection properly.
    ///
    /// - Parameter outcome: what `SSL_get_error` has returned.
    func cause(_ outcome: CInt, _ socket: lanyard_tls_socket) -> TLSError? {
        if outcome == SSL_ERROR_ZERO_RETURN { return isEstablished ? nil : .closedInHandshake }
        if socket.hello.is_too_long { return .helloTooLong }
        let code = ERR_peek_last_error()
        let reason = ERR_GET_REASON(code)
        let isTLS = code != 0 && ERR_GET_LIB(code) == ERR_LIB_SSL
        // A received alert says more than the end or the reset that follows it.
        if isTLS, (1000..<1256).contains(reason) { return cause(ofAlert: UInt8(reason - 1000)) }
        if !isEstablished, isPlainHTTP(socket) { return .plainHTTP }
        if socket.read_error != 0 { return .reset(socket.read_error) }
        if socket.at_end { return isEstablished ? .truncated : .closedInHandshake }
        if socket.write_error != 0 { return .reset(socket.write_error) }
        guard isTLS else { return .protocolViolation(code) }
        return switch reason {
        case SSL_R_CERTIFICATE_VERIFY_FAILED: Self.cause(ofVerification: CInt(SSL_get_verify_result(ssl)))
        case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE: .certificateMissing
        case SSL_R_UNSUPPORTED_PROTOCOL, SSL_R_VERSION_TOO_LOW, SSL_R_VERSION_TOO_HIGH, SSL_R_NO_PROTOCOLS_AVAILABLE:
            .noSharedVersion
        case SSL_R_NO_SHARED_CIPHER, SSL_R_NO_SHARED_GROUPS, SSL_R_NO_SUITABLE_GROUPS, SSL_R_NO_SUITABLE_KEY_SHARE,
            SSL_R_NO_SHARED_SIGNATURE_ALGORITHMS, SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM:
            .noSharedCipher
        case SSL_R_NO_APPLICATION_PROTOCOL: .noSharedProtocol
        case SSL_R_TOO_MANY_WARN_ALERTS, SSL_R_TOO_MANY_KEY_UPDATES: .tooManyMessages
        default: .protocolViolation(code)
        }
    }

    private func cause(ofAlert alert: UInt8) -> TLSError {
        switch CInt(alert) {
        case SSL_AD_CERTIFICATE_REQUIRED: .certificateRequired
        case SSL_AD_HANDSHAKE_FAILURE where lacksCertificate: .certificateRequired
        case SSL_AD_BAD_CERTIFICATE, SSL_AD_UNSUPPORTED_CERTIFICATE, SSL_AD_CERTIFICATE_REVOKED,
            SSL_AD_CERTIFICATE_EXPIRED, SSL_AD_CERTIFICATE_UNKNOWN, SSL_AD_UNKNOWN_CA, SSL_AD_ACCESS_DENIED:
            lacksCertificate ? .certificateRequired : .certificateRefused(alert: alert)
        case SSL_AD_PROTOCOL_VERSION: .noSharedVersion
        case SSL_AD_HANDSHAKE_FAILURE, SSL_AD_INSUFFICIENT_SECURITY: .noSharedCipher
        case SSL_AD_NO_APPLICATION_PROTOCOL: .noSharedProtocol
        default: .alert(alert)
        }
    }

    /// The cause of a failed verification, from an `X509_V_ERR_…`.
    static func cause(ofVerification code: CInt) -> TLSError {
        switch code {
        case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT, X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY,
            X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT, X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN,
            X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE, X509_V_ERR_CERT_UNTRUSTED:
            .unknownAuthority
        case X509_V_ERR_HOSTNAME_MISMATCH, X509_V_ERR_IP_ADDRESS_MISMATCH: .nameMismatch
        case X509_V_ERR_CERT_HAS_EXPIRED: .expired
        case X509_V_ERR_CERT_NOT_YET_VALID: .notYetValid
        case X509_V_ERR_INVALID_PURPOSE: .wrongPurpose
        default: .verificationFailed(code)
        }
    }

    /// A record of TLS begins with a byte that is no letter, and a request with the letters of its method.
    private func isPlainHTTP(_ socket: lanyard_tls_socket) -> Bool {
        withUnsafeBytes(of: socket.first) { bytes in
            let bytes = bytes.prefix(Int(socket.first_count))
            if isServer {
                let method = bytes.prefix { $0 != UInt8(ascii: " ") }
                return method.count >= 3 && method.allSatisfy { (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains($0) }
            }
            return bytes.count >= 5 && bytes.starts(with: "HTTP/".utf8)
        }
    }
}
