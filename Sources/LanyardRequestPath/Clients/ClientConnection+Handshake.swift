import LanyardFoundations
import LanyardSettings

/// The TLS handshake of a listener's client, and a client that speaks plain HTTP in place of it.
extension ClientConnection {
    /// A byte of the client's has come. In the state of the handshake.
    var hasBegunHandshake: Bool { stream.isSecured || membership.isQueuedForHandshake }

    /// The client gets a turn of its handshake. In a drain, one whose first byte has come gets the time of a handshake.
    func awaitHandshakeTurn() {
        if shard.isDraining, !hasBegunHandshake { begin(.handshake, for: shard.limits.headerTimeout) }
        clients.handshakes.add(self)
    }

    /// Continues the handshake with what has arrived. Called by `HandshakeQueue`.
    ///
    /// The session is made here and not at the accept: a client that sends nothing costs no memory for it.
    func continueHandshake() {
        shard.loop.assertIsCurrent()
        if !stream.isSecured {
            guard let index = exchange.rules.tlsIndex, let context = clients.listenerTLS[index] else { return close() }
            do throws(TLSError) {
                try stream.secure(as: context, workspace: shard.memory.tls)
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
        if stream.tlsSession?.hasAgreedOnHTTP2 == true {
            beginMultiplexing(with: UnsafeRawBufferPointer(start: nil, count: 0))
        } else if shard.isDraining {
            begin(.idle, for: currentIdleTimeout)
        } else {
            follow(with: .idle)
        }
        pump()
    }

    func handleHandshakeFailure(_ error: TLSError) {
        shard.loop.assertIsCurrent()
        membership.handshakePermit = nil
        shard.counters.countHandshake(.init(error))
        // The response to plain HTTP leaves a line of its own.
        if error != .plainHTTP {
            shard.log.record(error, certificate: stream.tlsSession?.refusedCertificate, peer: stream.peerAddress)
        }
        if error == .plainHTTP {
            stream.giveUpTLS()
            exchange.refuse(.plainHTTP)
        } else if error.sendsAlert {
            // A close with unread input would be a reset, which could destroy the alert on its way.
            stream.giveUpTLS()
            beginLinger()
        } else {
            close()
        }
    }
}
