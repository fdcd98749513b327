import LanyardFoundations
import Logging

/// The TLS handshake of a listener's client, and the two clients that speak the wrong one of TLS and plain HTTP.
extension ClientConnection {
    /// Continues the handshake with what has arrived. Called by `HandshakeQueue`.
    ///
    /// The session is made here and not at the accept: a client that sends nothing costs no memory for it.
    func continueHandshake() {
        if !stream.isSecured {
            guard let index = rules.tlsIndex, let context = shard.listenerTLS[index] else { return close() }
            do throws(TLSError) {
                try stream.secure(as: context, workspace: shard.tls)
            } catch {
                return handshakeFailed(error)
            }
            stream.expectInput()
        }
        switch stream.continueHandshake() {
        case .done: handshakeCompleted()
        case .wouldBlock: break
        case .failed(let error): handshakeFailed(error)
        }
    }

    private func handshakeCompleted() {
        shard.counters.handshake(stream.isResumed ? .resumed : .completed)
        isNamedClient = stream.isClientAllowed
        phase = .waiting
        pump()
    }

    func handshakeFailed(_ error: TLSError) {
        shard.counters.handshake(.init(error))
        // The response to plain HTTP leaves a line of its own.
        if error != .plainHTTP { logHandshakeFailure(error) }
        switch error {
        case .plainHTTP:
            stream.giveUpTLS()
            refuse(.plainHTTP)
        case .closedInHandshake, .reset, .timedOut: close()
        default:
            // A close with unread input would be a reset, which could destroy the alert on its way.
            stream.giveUpTLS()
            beginLinger()
        }
    }

    /// A TLS hello on a listener without TLS. No response of plain HTTP is a response to it.
    func refuseTLS() {
        shard.counters.rejected(.tls)
        logRefusal(
            "a client speaks TLS to a listener without it: use http, or give the listener tls",
            ["event": "listener.tls.unexpected"])
        beginLinger()
    }

    private func logHandshakeFailure(_ error: TLSError) {
        logRefusal(
            "the TLS handshake with a client has failed",
            [
                "event": "listener.tls.handshake_failed", "reason": .string(error.label),
                "cause": .string(error.message(.client)),
            ])
    }

    private func logRefusal(_ message: Logger.Message, _ metadata: @autoclosure () -> Logger.Metadata) {
        guard shard.log.logLevel <= .info, let leftOut = shard.context.handshakeLog.admit("tls", at: shard.loop.now)
        else { return }
        var metadata = metadata()
        if let peer = stream.peerAddress { metadata["peer"] = "\(peer)" }
        if leftOut > 0 { metadata["left_out"] = .stringConvertible(leftOut) }
        shard.log.info(message, metadata: metadata)
    }
}
