import LanyardFoundations
import LanyardSettings

/// Hands a token to the client itself, at the listener of a broker (fleet.md). Who may have which one the `TokenGranter` decides. The wait
/// for the token is that of any other request.
extension ClientExchange {
    func beginGrant(_ target: RequestTarget) {
        guard let granter = served.configuration.granters[rules.index] else { return refuse(.internalError) }
        let exchange = GrantExchange(granter, target)
        state = .granting(exchange)
        decide(exchange, hasBody: false)
    }

    private func decide(_ exchange: GrantExchange, hasBody: Bool) {
        guard let (bytes, lines) = input.headBytes else { return refuse(.internalError) }
        // Rows and capabilities of two configurations do not belong together: a row would admit by another row's capability.
        guard served === shard.served else { return refuse(.grantsReplaced) }
        let raw = bytes[run: input.head.target]
        let decision = sink.withGrantClient { client in
            exchange.body.withBytes { body in
                exchange.granter.decide(
                    GrantRequest(
                        input.head.kind, path: raw[run: exchange.target.path],
                        query: exchange.target.query.isEmpty
                            ? raw[run: 0..<0] : raw[run: exchange.target.query.dropFirst()],
                        bytes, lines, body: hasBody ? body : nil, from: client, active: served.active))
            }
        }
        switch decision {
        case .readBody(let form):
            exchange.refuse(as: form)
            awaitBody(of: exchange)
        case .grant(let grant):
            exchange.begin(grant)
            acquireToken(for: exchange, grant)
        case .reportRefusal(let user, let generation):
            shard.tokens.handleReportedRefusal(generation, of: user, at: shard.loop.now)
            let body = Array("{}\n".utf8).withUnsafeBytes { Secret(copying: $0) }
            send(GrantResponse(202, "application/json", body))
        case .respond(let response): send(response)
        case .refuse(let problem, let form):
            exchange.refuse(as: form)
            refuse(problem)
        }
    }

    // MARK: The body

    /// A caller that sends its body slowly keeps a connection, and nothing else.
    private static let bodyTimeout = Duration.seconds(10)

    private func awaitBody(of exchange: GrantExchange) {
        if case .length(let length) = input.head.framing, length > GrantRequest.bodyBytesMax {
            return refuse(.grantTooLarge)
        }
        if !input.body.isEnded, input.head.expectation == .continue100, input.bytesBehindHead == 0 {
            guard sendContinue() == .sent else { return abandon() }
        }
        begin(.refusedBody, for: Self.bodyTimeout)
        takeBody(of: exchange)
        if case .granting(let present) = state, present === exchange, present.grant == nil { sink.readUnlessReading() }
    }

    /// Takes what has come of the body.
    func takeBody(of exchange: GrantExchange) {
        guard exchange.grant == nil else { return }
        do throws(HeadError) {
            while !input.body.isEnded, let buffer = input.buffer, buffer.used < buffer.count {
                let arrived = buffer.rest
                let (used, data) = try input.consumeBody(arrived)
                let fits = exchange.append(data)
                input.recordUsed(used, of: arrived, isBuffered: true, in: shard)
                guard fits else { return refuse(.grantTooLarge) }
                if used == 0 { break }
            }
        } catch {
            return refuse(.malformed(error))
        }
        guard input.body.isEnded else {
            // The framing of chunks has a limit as well.
            if input.bytesBehindHead > 2 * GrantRequest.bodyBytesMax { refuse(.grantTooLarge) }
            return
        }
        endInboundWait()
        decide(exchange, hasBody: true)
    }

    /// The client's body has ended early, or did not come in time.
    func endBody(of exchange: GrantExchange) {
        guard exchange.grant == nil else { return }
        refuse(sink.hasEnded ? .malformed("its body ends early") : .requestTimeout)
    }

    // MARK: The token

    private func acquireToken(for exchange: GrantExchange, _ grant: TokenGrant) {
        switch shard.tokens.decideGrant(grant.user, at: shard.loop.now) {
        case .use(let token): hand(out: token, to: exchange, grant)
        case .park: park(exchange, grant)
        case .refuse(let refusal): refuse(problem(refusal, grant.user))
        case .replaced: refuse(.userReplaced(user: shard.context.userName(grant.user)))
        }
    }

    private func park(_ exchange: GrantExchange, _ grant: TokenGrant) {
        if shard.isDraining { return refuse(.shuttingDown) }
        let parked = shard.context.parked
        guard shard.tokens.mayPark(grant.user, among: parked), let permit = parked.acquire() else {
            return refuse(.overloaded("Too many requests wait for a token: limits.parked_requests_max is reached."))
        }
        upstream.park(permit)
        begin(TokenWait.first, for: served.configuration.tokenWaitMax)
        shard.tokens.park(self, for: grant.user)
    }

    /// Something was published for the user, whose waiter this was.
    func handleTokenChange(of exchange: GrantExchange) {
        guard let grant = exchange.grant else { return }
        if case .park = shard.tokens.decideGrant(grant.user, at: shard.loop.now) {
            return shard.tokens.park(self, for: grant.user)
        }
        unpark()
        acquireToken(for: exchange, grant)
    }

    /// `refresh.wait_max` has passed.
    func handleTokenWaitTimeout(of exchange: GrantExchange) {
        guard let grant = exchange.grant else { return }
        stopWaitingForToken()
        let now = shard.loop.now
        if let token = shard.tokens.unexpiredToken(grant.user, at: now), token.mayBeHandedOut(at: now) {
            return hand(out: token, to: exchange, grant)
        }
        if case .refuse(let refusal) = shard.tokens.decide(grant.user, at: now) {
            return refuse(problem(refusal, grant.user))
        }
        refuse(.identityUnreachable(user: shard.context.userName(grant.user), retryAfter: 1))
    }

    private func hand(out token: AccessToken, to exchange: GrantExchange, _ grant: TokenGrant) {
        let user = shard.context.userName(grant.user)
        send(exchange.granter.respond(to: grant, with: token, of: user, at: shard.loop.now))
    }

    // MARK: The response

    private func send(_ response: GrantResponse) {
        let closes = !input.body.isEnded || machine.closesClient || shard.isDraining
        record(response.status, .lanyard, nil, bytes: response.body.count)
        if sink.isStream {
            shard.heads.fields.clear()
            writeHead(of: response, closes: closes, into: &shard.heads.fields)
            return response.body.withBytes { sendFrames($0) }
        }
        shard.heads.out.clear()
        writeHead(of: response, closes: closes, into: &shard.heads.out)
        shard.heads.out.write(response.body)
        sendResponse(closes: closes)
    }

    private func writeHead(of response: GrantResponse, closes: Bool, into out: inout some HeadSink & ~Copyable) {
        out.beginResponse(
            response.status,
            reason: Bytes(start: response.reason.utf8Start, count: response.reason.utf8CodeUnitCount))
        out.beginField("Content-Type")
        out.write(response.contentType)
        out.endField()
        out.writeField("Content-Length", decimal: response.body.count)
        shard.heads.writeDate(&out)
        out.beginField("Cache-Control")
        out.write("no-store" as StaticString)
        out.endField()
        for (name, value) in response.fields {
            out.beginField(name)
            out.write(value)
            out.endField()
        }
        out.writePersistence(closes: closes, clientMinorVersion: input.head.minorVersion)
        out.endHead()
    }
}
