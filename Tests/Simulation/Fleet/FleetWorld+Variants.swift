import LanyardFoundations
import LanyardRequestPath
import LanyardSessionInterface
import LanyardSessions
import LanyardSettings

/// The access tokens that routes ask for beside the plain one: their requests, their fetches at the service, and the
/// reloads that add and remove them.
extension FleetWorld {
    /// After the users, and the user whose token another program renews.
    func variantIndex(_ user: Int, _ variant: Int) -> UserIndex {
        UserIndex(members.count + 1 + user * FleetVariant.all.count + variant)
    }

    /// Whose variant has this index; nil: it is a user's.
    func variant(_ index: UserIndex) -> (user: Int, variant: Int)? {
        let place = index.number - members.count - 1
        guard place >= 0 else { return nil }
        return (place / FleetVariant.all.count, place % FleetVariant.all.count)
    }

    /// The place of the variant that a call fetches; nil: it is about the plain token.
    func variant(of call: SessionCall) -> Int? { FleetVariant.all.firstIndex(of: call.variant) }

    // MARK: Publications

    func publish(
        _ process: FleetProcess, _ user: Int, _ availability: AccessToken.Availability, of index: UserIndex
    ) {
        guard let (availability, index) = planted(availability, of: index, process, user), let place = variant(index)
        else { return }
        let session = process.sessions[user]
        process.tokenCache.receive(availability, for: index, heard: process.heardRefusals)
        guard case .token(let token) = availability else {
            session.variants[place.variant].latest = nil
            session.variants[place.variant].bringMandatoryForward(to: clocks.instant)
            guard session.glance.state.isAuthenticated else { return }
            return planTurn(process, user, place.variant, in: max(plan.lifetime * 0.3, .seconds(8)))
        }
        checkPublished(process, user, token, of: place.variant)
        receive(token, process, user, place.variant)
        if session.variants[place.variant].isAwaited {
            session.variants[place.variant].isAwaited = false
            session.variants[place.variant].usedFrom = clocks.now
            serve(process, user, place.variant)
        }
        planTurn(process, user, place.variant, at: clocks.real(token.usableUntil))
    }

    /// What the checks remember of a published token.
    private func receive(_ token: AccessToken, _ process: FleetProcess, _ user: Int, _ place: Int) {
        var variant = process.sessions[user].variants[place]
        defer { process.sessions[user].variants[place] = variant }
        if variant.latest?.token != token.token {
            (variant.formerIssuedAt, variant.issuedAt) = (variant.issuedAt, clocks.now)
            variant.hasFailed = false
            variant.isRefused = false
            variant.mandatoryFrom = token.waitsFrom
            if variant.fetched != token.token {
                let isStart = process.sessions[user].troubledAt == clocks.now && process.startedAt == clocks.now
                report.count(isStart ? .variantRestored : .variantAdopted)
            }
        }
        if token.waitsFrom != .past { variant.bringMandatoryForward(to: token.waitsFrom) }
        variant.latest = token
        variant.generation = max(variant.generation, token.generation)
    }

    // MARK: Uses

    /// Steady traffic is not simulated request by request: between two counts it has used the token.
    func countUses(_ process: FleetProcess, _ user: Int, of index: UserIndex) {
        guard let place = variant(index)?.variant else { return }
        var variant = process.sessions[user].variants[place]
        if let from = variant.usedFrom, from < clocks.now {
            variant.uses += 1
            variant.usedFrom = nil
            variant.wantedAt = clocks.now
        }
        if traffic[user][place].has(since: variant.countedAt) {
            variant.uses += 1
            variant.wantedAt = clocks.now
        }
        if variant.latest != nil, variant.wantedAt < variant.issuedAt { report.count(.variantNotRenewed) }
        variant.countedAt = clocks.now
        process.sessions[user].variants[place] = variant
        // Upstreams accept each token that they do not refuse by a fault of their own.
        let uses = planted(uses: variant.uses).map { TokenUses(responses: $0, successes: $0) }
        deliver(process, user, .variant(index, .usesCounted(uses)))
    }

    // MARK: Requests

    func requestVariant(_ process: FleetProcess, _ user: Int) {
        requestVariant(process, user, random.below(members[user].variants.count))
    }

    /// - Returns: it has got a token.
    @discardableResult
    private func requestVariant(_ process: FleetProcess, _ user: Int, _ place: Int) -> Bool {
        report.requests += 1
        report.variantRequests += 1
        let index = process.sessions[user].variants[place].index
        switch process.tokenCache.decide(index, at: clocks.instant) {
        case .use:
            serve(process, user, place)
            process.sessions[user].variants[place].uses += 1
            return true
        case .park:
            if process.sessions[user].coordinator.session.state.isAuthenticated {
                process.sessions[user].variants[place].isAwaited = true
            }
            if isUnused(process, user, place) { report.count(.variantFetchedOnDemand) }
            process.sessions[user].variants[place].wantedAt = clocks.now
            let timeout = process.sessions[user].coordinator.setup.refresh.waitMax
            heap.plan(
                .variantWaitEnds(process: process.number, life: process.life, user: user, variant: place),
                at: clocks.now + timeout)
        case .refuse, .replaced:
            process.sessions[user].variants[place].wantedAt = clocks.now
            countRefused(process, user, place)
        }
        askSessions(process)
        return false
    }

    /// Its token has ended, and no request had wanted it.
    private func isUnused(_ process: FleetProcess, _ user: Int, _ place: Int) -> Bool {
        let variant = process.sessions[user].variants[place]
        return variant.latest.map { $0.usableUntil <= clocks.instant } == true && variant.wantedAt < variant.issuedAt
            && !traffic[user][place].has(since: variant.issuedAt)
    }

    /// A request carries the token of a variant.
    private func serve(_ process: FleetProcess, _ user: Int, _ place: Int) {
        let index = process.sessions[user].variants[place].index
        guard let token = process.tokenCache.unexpiredToken(index, at: clocks.instant) else { return }
        process.sessions[user].variants[place].wantedAt = clocks.now
        checkServed(process, user, token, of: place)
    }

    func stopWaiting(_ process: FleetProcess, _ user: Int, for place: Int) {
        guard !process.isDraining else { return }
        let index = process.sessions[user].variants[place].index
        if process.tokenCache.unexpiredToken(index, at: clocks.instant) != nil {
            return serve(process, user, place)
        }
        process.sessions[user].variants[place].isAwaited = false
        countRefused(process, user, place)
    }

    private func countRefused(_ process: FleetProcess, _ user: Int, _ place: Int) {
        report.refusedRequests += 1
        report.refusedVariantRequests += 1
        checkRefused(process, user, place)
    }

    /// An upstream refuses the token of a variant.
    func forceVariant(_ process: FleetProcess, _ user: Int, _ place: Int) {
        let index = process.sessions[user].variants[place].index
        process.sessions[user].variants[place].wantedAt = clocks.now
        guard case .use(let token) = process.tokenCache.decide(index, at: clocks.instant) else {
            return askSessions(process)
        }
        report.count(.variantRefreshForced)
        _ = process.tokenCache.handleRefusal(token.generation, of: index, at: clocks.instant, forces: true)
        askSessions(process)
    }

    /// Where requests come at any time, one is made when it matters.
    private func planTurn(_ process: FleetProcess, _ user: Int, _ place: Int, in delay: Duration) {
        planTurn(process, user, place, at: clocks.now + delay)
    }

    private func planTurn(_ process: FleetProcess, _ user: Int, _ place: Int, at instant: Instant) {
        let session = process.sessions[user]
        session.variants[place].plan += 1
        guard traffic[user][place].isSteady, session.variants[place].isConfigured else { return }
        heap.plan(
            .variantTurn(
                process: process.number, life: process.life, user: user, variant: place,
                plan: session.variants[place].plan), at: max(instant, clocks.now + .milliseconds(1)))
    }

    func takeTurn(_ process: FleetProcess, _ user: Int, _ place: Int, _ plan: UInt64) {
        let variant = process.sessions[user].variants[place]
        guard variant.plan == plan, traffic[user][place].isSteady, variant.isConfigured, !process.isDraining
        else { return }
        checkRenewed(process, user, place)
        let delay = max(self.plan.lifetime * 0.3, .seconds(8)) * (0.5 + random.chance())
        guard !requestVariant(process, user, place), process.sessions[user].variants[place].plan == plan,
            process.sessions[user].glance.state.isAuthenticated
        else { return }
        planTurn(process, user, place, in: delay)
    }

    // MARK: At the service

    func countFetch(_ call: FleetCall, _ token: SimulatedToken, _ response: FleetService.Response) {
        guard call.variant != nil else { return }
        switch response {
        case .granted(_, _, _, let isRotation):
            if isRotation { report.count(.rotationByFetch) }
            if isRotation, call.outcome.verdict != nil { report.count(.fetchLostRotation) }
            if plan.rotation == .grace, service.stays[token.session].rotatedAt < clocks.now {
                report.count(.fetchRepeatedInGrace)
            }
        case .dead(.repeated): report.count(.fetchKilledFamily)
        case .dead: report.count(.fetchFoundSessionDead)
        default: break
        }
    }

    /// What the reader of responses says of a token's audience; nil: nothing is wrong with it.
    func mismatch(_ token: SimulatedToken, _ variant: Int) -> String? {
        let isRight = token.audience == variant + 1 || token.audience == SimulatedToken.opaque
        return isRight || plan.bug == .wrongAudienceServed ? nil : "for the audience \(token.audience)"
    }

    /// What the checks remember of a fetch's response.
    func recordFetch(_ result: Result<Grant, IdentityError>, _ call: FleetCall, _ process: FleetProcess) {
        guard let place = call.variant else { return }
        let session = process.sessions[call.user]
        if session.wasLeft { report.count(.fetchOvertakenByLogout) }
        switch result {
        case .success(let grant) where grant.audienceMismatch != nil:
            report.count(.wrongAudienceRefused)
            session.variants[place].hasFailed = true
            session.troubledAt = clocks.now
        case .success(let grant):
            report.count(.variantFetched)
            if call.token == nil { report.count(.variantFetchedByLogin) }
            if SimulatedToken(grant.accessToken).audience == SimulatedToken.opaque {
                report.count(.opaqueVariantServed)
            }
            session.variants[place].fetched = grant.accessToken
            // It may have ended before it is here.
            session.variants[place].hasFailed = call.outcome.fault != nil
        case .failure(let error):
            if error.verdict == .unknownOutcome { report.count(.fetchUnanswered) }
            if error.verdict == .clientRefused { report.count(.variantRefused) }
            session.variants[place].isRefused = error.verdict == .unknownApp
            session.variants[place].hasFailed = true
        }
    }

    // MARK: Incidents

    func changeVariant() {
        guard let process = running.randomElement(&random) else { return }
        let users = members.indices.filter { !members[$0].variants.isEmpty }
        guard let user = users.randomElement(&random) else { return }
        let place = random.below(members[user].variants.count)
        switch random.below(11) {
        case 0, 1:
            service.variantResponses[user][place] = random.pick([.wrongAudience, .wrongAudience, .opaque, .refused])
            heap.plan(
                .relief(.variantGiven(user: user, variant: place)),
                at: clocks.now + plan.unit * (0.15 * random.chance()))
            forceVariant(process, user, place)
            if random.hits(0.3) { heap.plan(.relief(.operatorRefreshes(user: user)), at: clocks.now + .seconds(60)) }
        case 2, 3: changeTraffic(user, place)
        case 4, 5: reload(process, user, place)
        case 6: forceVariant(process, user, place)
        case 7:
            forceVariant(process, user, place)
            let relief = FleetRelief.operatorLogsOut(process: process.number, life: process.life, user: user)
            heap.plan(.relief(relief), at: clocks.now + .milliseconds(300) * random.chance())
        case 8, 9: loseFetches(process, user, place)
        default:
            refreshNow(user, at: process)
        }
    }

    /// Responses to fetches are lost for a while, perhaps those of a session that has just begun.
    private func loseFetches(_ process: FleetProcess, _ user: Int, _ place: Int) {
        let isNew = random.hits(0.5)
        if isNew { logIn(user, at: process) }
        let at = clocks.now + (isNew ? .milliseconds(200) : .zero)
        heap.plan(.relief(.serviceSeems(.swallowing, process: process.number)), at: at)
        let force = FleetRelief.variantForced(process: process.number, life: process.life, user: user, variant: place)
        heap.plan(.relief(force), at: at + .milliseconds(1))
        heap.plan(.relief(.serviceSeems(nil, process: process.number)), at: at + .seconds(40))
    }

    private func changeTraffic(_ user: Int, _ place: Int) {
        guard members[user].variants[place].traffic == .sometimes else { return }
        traffic[user][place] = FleetVariant.Traffic(isSteady: !traffic[user][place].isSteady, changedAt: clocks.now)
        for process in running { planTurn(process, user, place, in: .milliseconds(10)) }
    }

    /// A reload with another set of routes.
    private func reload(_ process: FleetProcess, _ user: Int, _ place: Int) {
        let isAdded = configured[process.number][user].insert(place).inserted
        if !isAdded { configured[process.number][user].remove(place) }
        report.count(isAdded ? .variantAdded : .variantRemoved)
        let session = process.sessions[user]
        session.variants[place].isConfigured = isAdded
        let call = session.coordinator.operation?.call
        if let call, variant(of: call) == place { session.variants[place].lastCall = call.number }
        session.variants[place].hasFailed = false
        session.variants[place].isAwaited = false
        deliver(process, user, .reconfigured(setup(of: user, in: process), isCredentialNew: false))
        guard processes[process.number] === process else { return }
        checkRemoved(process, user, place)
        if isAdded { planTurn(process, user, place, in: .seconds(1)) }
    }

    // MARK: Planted mistakes

    private func planted(
        _ availability: AccessToken.Availability, of index: UserIndex, _ process: FleetProcess, _ user: Int
    ) -> (AccessToken.Availability, UserIndex)? {
        switch (plan.bug, availability, variant(index)) {
        case (.variantsSwapped, .token(let token), let place?) where members[user].variants.count > 1:
            let other = variantIndex(user, (place.variant + 1) % members[user].variants.count)
            let swapped = AccessToken(
                user: other, generation: token.generation, account: token.account, token: token.token,
                waitsFrom: token.waitsFrom, usableUntil: token.usableUntil, renewal: token.renewal)
            return (.token(swapped), other)
        case (.removedVariantServed, .none(.variantRefused), let place?)
        where !process.sessions[user].variants[place.variant].isConfigured:
            return nil
        case (.endedVariantServed, .none(.loginRequired), _), (.endedVariantServed, .none(.loggedOut), _): return nil
        case (.variantPublicationLost, .token, _) where random.hits(0.2): return nil
        case (.variantGenerationReused, .token(let token), _):
            let same = AccessToken(
                user: token.user, generation: 7, account: token.account, token: token.token,
                waitsFrom: token.waitsFrom, usableUntil: token.usableUntil, renewal: token.renewal)
            return (.token(same), index)
        default: return (availability, index)
        }
    }

    private func planted(uses: UInt64) -> UInt64? {
        switch plan.bug {
        case .usesUncounted: 0
        case .usesInvented: nil
        default: uses
        }
    }

    /// Another variant is fetched with the same refresh token at the same time.
    func plantSecondLane(_ call: FleetCall, _ process: FleetProcess) {
        guard plan.bug == .secondLane, let variant = call.variant, let asked = call.call else { return }
        var second = call
        second.variant = (variant + 1) % members[call.user].variants.count
        second.call = SessionCall(
            number: asked.number, kind: asked.kind, cause: asked.cause, startedAt: asked.startedAt,
            startedAtWall: asked.startedAtWall)
        send(second, process, isCall: true)
    }
}
