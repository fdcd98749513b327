import LanyardFoundations
import LanyardSessionInterface
import LanyardSettings

/// Why there is no complete response. A type of its own, because the call decides what it means: `AppServicesVerdict`
/// makes an `IdentityError` of both.
struct CurlError: Error, Equatable, Sendable {
    enum Kind: Equatable, Sendable {
        case timedOut
        /// The name was not found, or no process accepts connections there.
        case unreachable
        /// The server's certificate is not trusted: an attacker may stand in between.
        case untrusted
        /// The TLS handshake failed: no TLS at that port, no version or cipher in common, or a broken handshake.
        case handshake
        /// The server wants a client certificate, or does not accept the one that it got.
        case certificateRefused
        /// The address is one that is never called: one of metadata services, or a remote one over plain http although the identity
        /// is configured on loopback. No connection was made.
        case prohibited
        /// The response exceeded Lanyard's size limit.
        case tooLarge
        /// The connection ended or broke during the response, or the response is not HTTP.
        case broken
        /// Its first steps, such as the reading of its files, have taken the call's time.
        case late
        /// Lanyard is stopping.
        case stopped
        /// A local cause: out of memory, an unreadable certificate file.
        case local
    }

    /// Ended by `CurlMulti.stop`.
    static func stopping(wasRequestSent: Bool) -> CurlError {
        CurlError(kind: .stopped, wasRequestSent: wasRequestSent, message: "Lanyard is stopping")
    }

    var kind: Kind
    /// Some of the request was sent, so the service may have processed it.
    var wasRequestSent: Bool
    /// The status, if a head arrived before the failure.
    var status: Int?
    /// What arrived of the body of a response with a status of success. It may hold the tokens of a new session.
    var partialBody: Secret?
    /// A message in plain words, without a secret or a byte of a response.
    var message: String
}

extension CurlError {
    /// What the missing response means for a session: transient.
    ///
    /// - Parameter call: what the message calls it, with its article.
    func identityError(of call: String) -> IdentityError {
        let text: String
        switch kind {
        case .untrusted:
            text =
                "no trust in the identity service's TLS connection (\(message)); check its certificate and tls.ca_file"
        case .handshake:
            text =
                "TLS could not be agreed with the identity service (\(message)); does it speak https at that port, "
                + "or want a client certificate (tls.certificate_file)?"
        case .certificateRefused:
            text =
                "the identity service does not accept the client certificate, or wants one (\(message)); check "
                + "tls.certificate_file and what the service admits"
        case .prohibited: text = "\(call) was not made: \(message)"
        case .late, .local, .stopped: text = "\(call) was not made (\(message))"
        case .tooLarge: text = "the identity service's response to \(call) is too large (\(message))"
        default: text = "no response of the identity service to \(call) (\(message))"
        }
        let isAlarming = kind == .untrusted || kind == .prohibited
        var error = IdentityError(.transient(retryAfter: nil), status: status, message: text, isAlarming: isAlarming)
        error.cause = cause
        if kind == .certificateRefused { error.responsible = .operator }
        return error
    }

    private var cause: IdentityCause {
        switch kind {
        case .timedOut, .unreachable, .broken: .noResponse
        case .untrusted: .untrusted
        case .handshake: .tls
        case .certificateRefused: .clientCertificate
        case .prohibited: .prohibited
        case .tooLarge: .unusableResponse
        case .late, .stopped, .local: .machine
        }
    }
}

extension IdentityError {
    /// Records what is known of a refresh without a whole response.
    ///
    /// A response that is too large is one if it has a status. All other failures say nothing of what the service has done.
    mutating func note(_ failure: CurlError) {
        let status = failure.status.flatMap { $0 >= 200 ? $0 : nil }
        let response = RefreshResponse(
            isSent: failure.wasRequestSent, status: status, isWhole: failure.kind == .tooLarge && status != nil)
        refreshResponse = response
        // Whatever the rotation, it may have been exchanged.
        if response.outcome(.none) == .unknown { verdict = .unknownOutcome }
    }
}
