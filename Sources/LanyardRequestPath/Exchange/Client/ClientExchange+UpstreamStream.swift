import LanyardFoundations
import LanyardSettings

/// The request and the response on a stream of an upstream's HTTP/2 connection.
extension ClientExchange {
    // MARK: The request

    /// Sends the head that was written, with the body bytes that have come.
    ///
    /// - Parameter isRepeated: the kept body is sent from its start.
    /// - Returns: `untouched`: the connection takes no request any more.
    func beginStream(
        _ stream: UpstreamStream, _ token: AccessToken, isRepeated: Bool, of active: ActiveExchange
    ) -> UpstreamSend {
        guard let (bytes, _) = input.headBytes else { return .failed }
        let none = UnsafeRawBufferPointer(start: nil, count: 0)
        var (first, second) = (none, none)
        if isRepeated {
            let kept = replay.bytes(from: 0, in: bytes)
            (first, second) = (UnsafeRawBufferPointer(kept.0), UnsafeRawBufferPointer(kept.1))
        }
        let ends = input.body.isEnded
        let hasBegun = stream.begin(
            &shard.heads.fields, until: token.usableUntil, first, second, ends: ends,
            ends ? streamTrailers(of: active) : nil)
        guard hasBegun else { return machine.canRetryUnsent ? .untouched : .failed }
        updateSendTimeout(of: active)
        return .sent
    }

    /// Sends bytes of the body in two runs.
    func push(
        _ first: UnsafeRawBufferPointer, _ second: UnsafeRawBufferPointer, ends: Bool, to stream: UpstreamStream,
        of active: ActiveExchange
    ) -> UpstreamSend {
        guard stream.send(first, second, ends: ends, ends ? streamTrailers(of: active) : nil) else { return .failed }
        updateSendTimeout(of: active)
        return .sent
    }

    private func streamTrailers(of active: ActiveExchange) -> StreamTrailers? {
        guard input.hasStreamTrailers else { return nil }
        let trailers = upstream.stream?.makeTrailers() ?? StreamTrailers()
        input.writeTrailers(into: &trailers.fields, on: active.route, shard.headLimits)
        return trailers
    }

    /// The stream takes bytes again.
    func continueUpload(of active: ActiveExchange) {
        updateSendTimeout(of: active)
        if wantsBody { forwardBuffered(of: active) }
        if state.isForwarding { sink.read() }
    }

    /// Whether the upstream takes a head as long as the one that was written. If not, nothing is sent: servers of gRPC refuse such calls
    /// without a word of the token (H38).
    func fitsUpstream(_ stream: UpstreamStream, _ token: AccessToken) -> Bool {
        let bytesMax = stream.peerListBytesMax
        let count = shard.heads.fields.listBytes
        guard count > bytesMax else { return true }
        let tokenCount = token.token.withBytes(\.count)
        refuse(.upstreamTakesNoSuchHead(bytes: count, token: tokenCount, max: bytesMax))
        return false
    }

    // MARK: The response

    /// Takes what has come on the stream, while the client takes it.
    func pumpStream(_ stream: UpstreamStream, for active: ActiveExchange) {
        while replay.held == nil, stream === upstream.stream {
            guard sink.canTake else {
                // A client that has the head learns of it at once, also if it takes nothing (H25).
                if machine.response == .relaying, let failure = stream.takeFailure() {
                    _ = handleStreamFailure(failure)
                }
                return
            }
            let progress: ExchangeProgress
            switch stream.take() {
            case .none: return
            case .head(let text, let isNeverIndexed, let ends):
                relay.noteHead(ends: ends, isNeverIndexed: isNeverIndexed)
                progress = receiveHead(text, for: active)
            case .body(let bytes, let ends):
                if ends { relay.expectEnd() }
                progress = relay.isInBody ? relayBody(bytes, of: active) : failWithoutHead()
            case .trailers(let text):
                relay.keepTrailers(text)
                relay.expectEnd()
                let none = UnsafeMutableRawBufferPointer(start: nil, count: 0)
                progress = relay.isInBody ? relayBody(none, of: active) : failWithoutHead()
            case .failed(let failure): progress = handleStreamFailure(failure)
            }
            guard progress == .continues else { return }
        }
    }

    private func receiveHead(_ text: UnsafeMutableRawBufferPointer, for active: ActiveExchange) -> ExchangeProgress {
        switch readHeads(text, shard.memory.responseTable, for: active) {
        case .relayed(let progress): return progress
        // An interim one.
        case .incomplete(let offset) where offset == text.count: return .continues
        case .incomplete:
            return carryOut(machine.handleUpstreamFailure(.malformed("a head that HTTP/1.1 cannot express")))
        }
    }

    /// The codec permits no body before a head.
    private func failWithoutHead() -> ExchangeProgress {
        carryOut(machine.handleUpstreamFailure(.malformed("a body without a head")))
    }

    private func handleStreamFailure(_ failure: UpstreamStream.Failure) -> ExchangeProgress {
        let holdsRequest = replay.holdsBody
        switch failure {
        case .malformed(let error): return carryOut(machine.handleUpstreamFailure(error))
        case .notProcessed: return carryOut(machine.handleUnprocessed(holdsRequest: holdsRequest))
        case .needsHTTP1:
            state.active?.pool.target.pinToHTTP1()
            return carryOut(machine.handleUnprocessed(holdsRequest: holdsRequest))
        case .reset: return carryOut(machine.handleReset())
        case .cut:
            return carryOut(
                machine.handleUpstreamEnd(
                    clean: false, sawBytes: relay.hasAnyOfHead, holdsRequest: input.body.isEnded && holdsRequest))
        }
    }
}
