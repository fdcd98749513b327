import LanyardFoundations
import LanyardSettings
import Logging

/// The TLS handshake of a listener's client, and a client that speaks plain HTTP in place of it.
extension ClientConnection {
    /// A byte of the client's has come. In the state of the handshake.
    var hasBegunHandshake: Bool { stream.isSecured || membership.isQueuedForHandshake }

    /// The client gets a turn of its handshake. In a drain, one whose first byte has come gets the time of a handshake.
    func awaitHandshakeTurn() {
        if shard.isDraining, !hasBegunHandshake { begin(.handshake, for: shard.limits.headerTimeout) }
        shard.handshakes.add(self)
    }

    /// Continues the handshake with what has arrived. Called by `HandshakeQueue`.
    ///
    /// The session is made here and not at the accept: a client that sends nothing costs no memory for it.
    func continueHandshake() {
        shard.loop.assertIsCurrent()
        if !stream.isSecured {
            guard let index = view.rules.tlsIndex, let context = shard.listenerTLS[index] else { return close() }
            do throws(TLSError) {
                try stream.secure(as: context, workspace: shard.tls)
            } catch {
                return handleHandshakeFailure(error)
            }
            stream.expectInput()
        }
        switch stream.continueHandshake() {
        case .done: handleHandshakeCompletion()
        case .wouldBlock: break
        case .failed(let error): handleHandshakeFailure(error)
        }
    }

    private func handleHandshakeCompletion() {
        shard.counters.countHandshake(stream.isResumed ? .resumed : .completed)
        membership.isNamedClient = stream.isClientAllowed
        membership.handshakePermit = nil
        state = .waiting
        if shard.isDraining { begin(.idle, for: currentIdleTimeout) } else { waits.follow(with: .idle) }
        pump()
    }

    func handleHandshakeFailure(_ error: TLSError) {
        shard.loop.assertIsCurrent()
        membership.handshakePermit = nil
        shard.counters.countHandshake(.init(error))
        // The response to plain HTTP leaves a line of its own.
        if error != .plainHTTP { logHandshakeFailure(error) }
        if error == .plainHTTP {
            stream.giveUpTLS()
            refuse(.plainHTTP)
        } else if error.sendsAlert {
            // A close with unread input would be a reset, which could destroy the alert on its way.
            stream.giveUpTLS()
            beginLinger()
        } else {
            close()
        }
    }

    private func logHandshakeFailure(_ error: TLSError) {
        guard shard.log.logLevel <= .info else { return }
        let throttle = shard.context.handshakeLog[HandshakeResult(error).rawValue]
        guard let leftOut = throttle.admitLine(at: shard.loop.now) else {
            guard !shard.suppressed.isPending(throttle) else { return }
            return shard.suppressed.add(throttle) { [log = shard.log] count in
                log.info(
                    "further TLS handshakes with clients have failed",
                    metadata: [
                        "event": "listener.tls.handshake_failed", "reason": .string(error.label),
                        "left_out": .stringConvertible(count),
                    ])
            }
        }
        var metadata: Logger.Metadata = [
            "event": "listener.tls.handshake_failed", "reason": .string(error.label),
            "cause": .string(error.message(.client, stream.tlsSession?.refusedCertificate)),
        ]
        if let peer = stream.peerAddress { metadata["peer"] = "\(peer)" }
        if leftOut > 0 { metadata["left_out"] = .stringConvertible(leftOut) }
        shard.log.info("the TLS handshake with a client has failed", metadata: metadata)
    }
}
