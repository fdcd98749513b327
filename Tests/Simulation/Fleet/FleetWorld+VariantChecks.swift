import LanyardFoundations
import LanyardRequestPath
import LanyardSessionInterface
import LanyardSessions

/// What must hold of variants.
extension FleetWorld {
    // MARK: What went wrong lately

    /// Notes for one user what may delay a fetch.
    func noteTrouble(
        _ event: SessionCoordinator.Event, _ state: SessionState, _ process: FleetProcess, _ user: Int
    ) {
        let isTrouble: Bool =
            switch event {
            case .begin, .reconfigured, .login, .obtained, .refresh, .terminate, .beginDeletion, .endDeletion,
                .retryUnsavedEnd, .locked(.busy), .locked(.failed), .begun(.busy, _), .committed(.failure),
                .read(.failure, _), .committed(.success(.overtaken)):
                true
            default: false
            }
        if isTrouble || ![.valid, .refreshing].contains(state) { process.sessions[user].troubledAt = clocks.now }
        // The wait for another process's lock was given up: a fetch has failed without a call.
        if case .begun(.busy, let operation) = event,
            process.sessions[user].coordinator.operation?.call.number != operation
        {
            for place in process.sessions[user].variants.indices {
                process.sessions[user].variants[place].hasFailed = true
            }
        }
    }

    /// Nothing has gone wrong for a user in a process since `instant`, in real time.
    private func isQuiet(_ process: FleetProcess, _ user: Int, since instant: Instant) -> Bool {
        let troubles = [
            process.sessions[user].troubledAt, asleepUntil, pauseEndedAt, wallWrongAt, wallLostAt, diskTroubleAt,
            lockTroubleAt,
        ]
        return troubles.allSatisfy { $0 < instant } && !owesPause && !isWallSetWrong && !disk.isTroubled
            && !disk.refusesLocks && process.sessions[user].coordinator.storeError == nil
            && [.valid, .refreshing].contains(process.sessions[user].glance.state)
            // A session that has lost its refresh token waits for the next login.
            && (process.sessions[user].coordinator.session.tokens?.refresh != nil || !members[user].hasRefreshToken)
    }

    /// Tokens that live for a few seconds cannot all be renewed in time by calls that are made one after another.
    private func livesLong(_ user: Int, _ place: Int) -> Bool {
        plan.lifetime * members[user].variants[place].stretch >= .seconds(20) && plan.lifetime >= .seconds(20)
    }

    // MARK: Calls

    func forgetOpenRefreshes(of process: FleetProcess) {
        for user in openRefreshes.indices { openRefreshes[user].removeAll { calls[$0].process == process.number } }
    }

    /// One call at a time with one refresh token, in all processes together.
    func checkLane(_ process: FleetProcess, _ user: Int, _ token: SimulatedToken) {
        report.checks += 1
        let session = process.sessions[user]
        guard !session.isLockless, !disk.refusesLocks, clocks.now >= lockTroubleAt + .seconds(60), !session.wasLeft,
            !session.isAsked, !session.wasAsked
        else { return }
        for place in openRefreshes[user] where calls[place].token?.session == token.session {
            guard let other = processes[calls[place].process], !other.sessions[user].isLockless,
                !other.sessions[user].wasLeft
            else { continue }
            accuse(
                .oneLane,
                "\(name(process, user)) sends a refresh token while call \(calls[place].call?.number ?? 0) is open")
        }
    }

    /// The refresh token of a call is the one that the store has.
    func checkRotationStored(_ process: FleetProcess, _ user: Int, _ token: SimulatedToken) {
        guard isStoreTrusted, !members[user].isExcused, !disk.refusesLocks,
            clocks.now >= lockTroubleAt + .seconds(60), !process.sessions[user].isLockless,
            let refresh = durableContents()?[members[user].name]?.session?.refresh
        else { return }
        report.checks += 1
        let stored = SimulatedToken(refresh)
        guard stored.session == token.session, stored.value != token.value else { return }
        accuse(
            .rotationStored, "\(name(process, user)) sends token \(token.value), and the store has \(stored.value)")
    }

    /// A fetch without a request for it, for an unused token.
    func checkFetch(_ process: FleetProcess, _ user: Int, _ call: SessionCall) {
        guard let place = variant(of: call) else { return }
        report.checks += 1
        let variant = process.sessions[user].variants[place]
        if !variant.isConfigured, call.number != variant.lastCall {
            accuse(.droppedVariant, "\(name(process, user)) fetches variant \(place), which no route names")
        }
        if call.kind == .login, members[user].isKnownOneUse {
            accuse(.spentOnce, "\(name(process, user)) uses its credential up for variant \(place) alone")
        }
        guard call.cause == .scheduled, let token = variant.latest?.token, token == variant.fetched,
            variant.wantedAt < variant.formerIssuedAt,
            !traffic[user][place].has(since: variant.formerIssuedAt)
        else { return }
        accuse(.unusedVariant, "\(name(process, user)) renews variant \(place) again, which no request uses")
    }

    // MARK: Publications

    func checkPublished(_ process: FleetProcess, _ user: Int, _ token: AccessToken, of place: Int) {
        report.checks += 1
        let session = process.sessions[user]
        let variant = session.variants[place]
        let made = SimulatedToken(token.token)
        checkAudience(process, user, made, place)
        checkAccount(process, user, token, made)
        let end = made.madeAt + .nanoseconds(made.value)
        if clocks.real(token.usableUntil) > end, !isClockExcused(made) {
            let late = clocks.real(token.usableUntil) - end
            accuse(.expiredToken, "\(name(process, user)) publishes variant \(place) for \(late) longer than it lives")
        }
        if !variant.isConfigured {
            accuse(.droppedVariant, "\(name(process, user)) publishes variant \(place), which no route names")
        }
        guard variant.latest?.token != token.token else { return }
        if token.generation <= variant.generation {
            accuse(
                .variantGeneration,
                "\(name(process, user)) publishes variant \(place) as \(token.generation) after \(variant.generation)")
        }
        let stored = session.known?.session?.tokens.others[FleetVariant.all[place]]
        if session.coordinator.storeError == nil, stored?.token != token.token {
            accuse(.persisted, "\(name(process, user)) publishes a token of variant \(place), which no store has")
        }
    }

    private func checkAudience(_ process: FleetProcess, _ user: Int, _ token: SimulatedToken, _ place: Int) {
        guard token.audience != place + 1, token.audience != SimulatedToken.opaque else { return }
        accuse(
            .variantAudience, "\(name(process, user)) has a token for audience \(token.audience) for variant \(place)")
    }

    // MARK: Requests

    func checkServed(_ process: FleetProcess, _ user: Int, _ token: AccessToken, of place: Int) {
        report.checks += 1
        let made = SimulatedToken(token.token)
        let session = process.sessions[user]
        checkAudience(process, user, made, place)
        if service.stays[made.session].account != user {
            accuse(.rightUser, "\(name(process, user)) serves a token of user \(service.stays[made.session].account)")
        }
        let end = made.madeAt + .nanoseconds(made.value)
        if clocks.now >= end, !isClockExcused(made) {
            accuse(.expiredToken, "\(name(process, user)) serves variant \(place) \(clocks.now - end) after its end")
        }
        if !session.variants[place].isConfigured {
            accuse(.droppedVariant, "\(name(process, user)) serves variant \(place), which no route names")
        }
        if !session.glance.state.isAuthenticated {
            accuse(.droppedVariant, "\(name(process, user)) is \(session.glance.state), and serves variant \(place)")
        }
        guard let plain = session.coordinator.session.tokens, !service.stays[made.session].isOfVariant else { return }
        let present = SimulatedToken(plain.access).session
        if present != made.session {
            accuse(
                .droppedVariant,
                "\(name(process, user)) serves variant \(place) of session \(made.session) beside session \(present)")
        }
    }

    /// A request for a variant is refused, or has waited for nothing, although the plain token is usable.
    func checkRefused(_ process: FleetProcess, _ user: Int, _ place: Int) {
        report.checks += 1
        let variant = process.sessions[user].variants[place]
        guard variant.isConfigured, !variant.hasFailed, livesLong(user, place),
            clocks.instant >= process.sessions[user].goneUntil,
            process.tokenCache.unexpiredToken(UserIndex(user), at: clocks.instant) != nil,
            isQuiet(process, user, since: clocks.now - .seconds(60))
        else { return }
        accuse(.variantRefusal, "\(name(process, user)) refuses a request for variant \(place)")
    }

    /// At the end of a token that requests have used all its life.
    func checkRenewed(_ process: FleetProcess, _ user: Int, _ place: Int) {
        let variant = process.sessions[user].variants[place]
        guard let token = variant.latest, clocks.instant >= token.usableUntil, livesLong(user, place),
            // The next fetch of one that ends in seconds may wait for a call in progress.
            clocks.real(variant.mandatoryFrom) > variant.issuedAt + .seconds(10),
            traffic[user][place].changedAt < variant.issuedAt, !variant.hasFailed,
            isQuiet(process, user, since: variant.issuedAt - .seconds(1))
        else { return }
        report.checks += 1
        accuse(.variantRenewed, "\(name(process, user)) lets the token of variant \(place) end")
    }

    /// A reload has removed a variant.
    func checkRemoved(_ process: FleetProcess, _ user: Int, _ place: Int) {
        report.checks += 1
        let variant = process.sessions[user].variants[place]
        guard !variant.isConfigured,
            process.tokenCache.unexpiredToken(variant.index, at: clocks.instant) != nil
        else { return }
        accuse(.droppedVariant, "\(name(process, user)) still has a token of variant \(place), which no route names")
    }

    /// At the end of some quiet minutes requests get each variant's token.
    func auditVariants(_ process: FleetProcess, _ user: Int) {
        for place in process.sessions[user].variants.indices where traffic[user][place].isSteady {
            let variant = process.sessions[user].variants[place]
            guard variant.isConfigured, !variant.isRefused, livesLong(user, place),
                clocks.instant >= process.sessions[user].goneUntil,
                isQuiet(process, user, since: clocks.now - .seconds(60)),
                traffic[user][place].changedAt < clocks.now - .seconds(60)
            else { continue }
            report.checks += 1
            if process.tokenCache.unexpiredToken(variant.index, at: clocks.instant) == nil {
                accuse(.variantRefusal, "\(name(process, user)) has no token of variant \(place) after quiet minutes")
            }
        }
    }
}
