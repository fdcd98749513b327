import LanyardFoundations
import LanyardSettings

/// What comes on a stream of HTTP/2. The receiver of the connection reads the frames.
extension ClientExchange {
    /// The head of a request has come, as text.
    ///
    /// - Parameters:
    ///   - isWhole: no body follows.
    ///   - traits: what the text does not say.
    ///   - fault: why it is no request.
    func beginStream(
        _ text: UnsafeRawBufferPointer, isWhole: Bool, _ traits: RequestHead.Traits, fault: Problem?
    ) {
        shard.loop.assertIsCurrent()
        if let fault { return refuse(fault) }
        do throws(HeadError) {
            try input.readHead(
                text, isWhole: isWhole, traits, shard.headLimits, at: shard.loop.now, in: shard)
            begin(isLast: false)
        } catch {
            refuse(.malformed(error))
        }
    }

    /// The trailers of the request have come, as text.
    ///
    /// - Parameter fault: why they are none.
    /// - Returns: false: the request has ended.
    func receiveTrailers(_ text: UnsafeRawBufferPointer, fault: Problem?) -> Bool {
        guard let fault else {
            input.keepTrailers(text)
            return true
        }
        guard state.isForwarding, machine.response == .awaited else {
            abandon()
            return false
        }
        perform(machine.handleRequestFailure(fault))
        return false
    }

    /// Bytes of the body have come, as far as `wantedInput` asks for some.
    ///
    /// - Parameter ends: they are the last ones.
    func receiveBody(_ bytes: UnsafeMutableRawBufferPointer, ends: Bool) {
        if ends { input.expectBodyEnd() }
        switch wantedInput {
        case .body: forwardBody(bytes)
        case .refusedBody:
            input.append(UnsafeRawBufferPointer(bytes), in: shard)
            // Nothing comes with the end, mostly.
            if ends, bytes.isEmpty { _ = try? input.consumeBody(bytes) }
            handleRefusedBody(0)
        case .tunnel:
            if case .tunnel(_, let tunnel) = state { tunnel.receive(UnsafeRawBufferPointer(bytes), ends: ends) }
        case .none: break
        }
    }

    /// The stream is closed, and the client has not ended it in order.
    func handleClientReset() {
        shard.loop.assertIsCurrent()
        if state.isTunnel { endTunnel(.reset) } else if state.isHeadRead { abandon() }
        endStream()
    }
}
