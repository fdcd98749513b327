import LanyardFoundations
import LanyardSessionInterface
import LanyardSessions
import LanyardSettings

/// What must hold at each call, publication and request: the promises of `FleetViolation`.
extension FleetWorld {
    // MARK: Calls

    func checkRefresh(_ process: FleetProcess, _ user: Int, _ token: SimulatedToken, _ call: SessionCall) {
        checkFlight(process, user, call)
        report.checks += 1
        if let sent = members[user].sent, sent.session != token.session || sent.value != token.value {
            members[user].unknownOutcomes = 0
        }
        members[user].sent = token
        if let newest = process.sessions[user].newest, newest.session == token.session, token.value < newest.value {
            accuse(.oldToken, "\(name(process, user)) sends token \(token.value), and has been given \(newest.value)")
        }
        let open = members[user].unknownOutcomes
        members[user].unknownOutcomes += 1
        if open == 0 { members[user].unknownSince = clocks.wall }
        guard call.cause != .lastTry else { return checkLastTry(process, user, token) }
        checkMark(process, user, token)
        guard !members[user].isExcused, !disk.refusesLocks else { return }
        let rotation = known(of: token)
        let allowed: Int =
            switch rotation {
            case .none: members[user].hasCredential ? 1 : .max
            case .grace: isWithinWindow(user) ? 1 : 0
            case .oneUse, .auto: 0
            }
        if open > allowed {
            accuse(.oldToken, "\(name(process, user)) sends its token again after \(open) calls without an answer")
        } else if service.isSpent(token), service.isAlive(token, at: clocks.now),
            !(rotation == .grace && open == 1), !(rotation == .none && open > 0)
        {
            accuse(.oldToken, "\(name(process, user)) sends token \(token.value), which has a successor")
        }
    }

    /// What the configuration, and the responses of the token's session, say of rotation. A session's first token has the number 1.
    func known(of token: SimulatedToken) -> RefreshTokenRotation {
        plan.isAuto ? (token.value > 1 ? .oneUse : .none) : plan.rotation
    }

    /// Whether the service's grace period lasts, as far as the machine's wall clock tells.
    private func isWithinWindow(_ user: Int) -> Bool {
        guard let window = plan.refreshTokens.graceWindow else { return true }
        return .zero..<window ~= clocks.wall - members[user].unknownSince
    }

    func checkLogin(_ process: FleetProcess, _ user: Int, _ call: SessionCall) {
        checkFlight(process, user, call)
        let session = process.sessions[user]
        guard call.cause != .asked, !session.isAsked, !session.isRearmed, isStoreTrusted, !members[user].isExcused
        else { return }
        report.checks += 1
        guard members[user].unknownOutcomes == 0, let stored = storedContents()?[members[user].name],
            !stored.isLoggedOut,
            // A login's intent keeps the tries of the refresh before it, which may have been sent.
            stored.intent?.tries ?? 0 == 0,
            let refresh = stored.session?.refresh, service.accepts(SimulatedToken(refresh), at: clocks.now),
            !isMarked(SimulatedToken(refresh))
        else { return }
        accuse(.needlessLogin, "\(name(process, user)) logs in (\(call.cause.rawValue)) beside a live session")
    }

    /// One call of a user's in flight, in all processes together, as long as locks can be had.
    func checkFlight(_ process: FleetProcess, _ user: Int, _ call: SessionCall) {
        let session = process.sessions[user]
        let isAsked = session.isAsked || call.cause == .asked || call.cause == .credentialChanged
        // Who wants a token now wants the login, too, if that is what it takes.
        // A fetch without a token waits for 30 s at most, and may be the one to find the session dead.
        let isFound = [.sessionDead, .outcomeUnknown, .fetchRefused].contains(call.cause) && session.wasFetch
        let isWanted = isAsked || isFound || call.cause == .sessionDead && session.wasAsked
        let limit = limit(of: call, session, user)
        if !isWanted, clocks.instant < limit.notBefore, clocks.instant < limit.zone {
            let early = limit.notBefore - clocks.instant
            accuse(
                .retryAfter,
                "\(name(process, user)) calls \(early) before the service wants it (\(call.cause.rawValue))")
        }
        guard !session.isLockless, !disk.refusesLocks, clocks.now >= lockTroubleAt + .seconds(60) else { return }
        for other in open where other !== process {
            guard let prepared = other.sessions[user].prepared, !other.sessions[user].isLockless,
                !other.sessions[user].wasLeft
            else { continue }
            accuse(
                .singleFlight,
                "\(name(process, user)) calls while \(name(other, user)) has prepared call \(prepared.call.number)")
        }
        for other in open {
            guard let place = other.sessions[user].call, !other.sessions[user].isLockless else { continue }
            // What was in progress when an operator logged in or out continues to its late response.
            if other === process, isAsked || session.wasLeft { continue }
            if other !== process, other.sessions[user].wasLeft { continue }
            accuse(
                .singleFlight,
                "\(name(process, user)) calls while \(name(other, user)) waits for call \(calls[place].call?.number ?? 0)"
            )
        }
    }

    /// Until when the service's Retry-After holds for a call, and the start of the mandatory zone of its token.
    private func limit(
        of call: SessionCall, _ session: FleetSession, _ user: Int
    ) -> (notBefore: Instant, zone: Instant) {
        guard let variant = variant(of: call) else {
            return (session.notBefore, session.coordinator.session.tokens?.mandatoryFrom ?? .never)
        }
        guard session.notBefore > clocks.instant else { return (.past, .never) }
        let (asked, delay) = session.retryAfter
        // Of its latest token, which may have ended since.
        let zone = session.variants[variant].mandatoryFrom
        guard asked < zone else { return (asked + min(delay, .seconds(30)), .never) }
        return (min(asked + delay, zone), zone)
    }

    /// A request is refused, although the first attempt to renew the token has begun less than `refresh.wait_max` ago.
    func checkRefused(_ process: FleetProcess, _ user: Int) {
        report.checks += 1
        let coordinator = process.sessions[user].coordinator
        guard case .unreachable(_, let retryState) = coordinator.session, retryState.failures == 0,
            let call = retryState.call, ![.sessionDead, .outcomeUnknown, .lastTry].contains(call.cause),
            clocks.instant < call.startedAt + coordinator.setup.refresh.waitMax
        else { return }
        accuse(.patience, "\(name(process, user)) refuses a request while call \(call.number) has just begun")
    }

    func countCall(_ user: Int) {
        let hour = clocks.now.nanoseconds / Duration.seconds(3600).nanoseconds
        if members[user].hour != hour {
            members[user].hour = hour
            members[user].callsInHour = 0
            members[user].startsInHour = 0
            members[user].shortestLife = plan.lifetime
        }
        members[user].callsInHour += 1
        // One in the least part of a lifetime, the back-off with clients waiting, and what starts and operators add; for each process.
        let scheduled = 3600 / max(members[user].shortestLife.inSeconds * 0.6, 1.2)
        let tokens = Double(1 + members[user].variants.count)
        let most =
            tokens * (Double(plan.processes) * (scheduled + 950) + Double(20 * members[user].startsInHour))
        report.checks += 1
        if Double(members[user].callsInHour) > most {
            accuse(.storm, "user \(user) has called \(members[user].callsInHour) times within an hour")
        }
    }

    /// What the service is told to end, beside an operator's logout, is not what the store says that the user lives by.
    private func isHeld(_ token: SimulatedToken, _ user: Int) -> Bool {
        guard let stored = storedContents()?[members[user].name], !stored.isLoggedOut,
            let held = stored.session?.refresh
        else { return false }
        return SimulatedToken(held).session == token.session && service.accepts(SimulatedToken(held), at: clocks.now)
    }

    func checkRevoked(_ process: FleetProcess, _ user: Int, _ revocation: StoredRevocation) {
        report.checks += 1
        // A logout may not be stored yet.
        guard !members[user].wantsOut, isStoreTrusted, !members[user].isExcused,
            isHeld(SimulatedToken(revocation.token), user)
        else { return }
        accuse(.revokedLive, "\(name(process, user)) revokes the session that the store holds")
    }

    // MARK: Tokens on their way to requests

    func checkPublished(_ process: FleetProcess, _ user: Int, _ token: AccessToken) {
        report.checks += 1
        let session = process.sessions[user]
        let made = SimulatedToken(token.token)
        checkAccount(process, user, token, made)
        let end = made.madeAt + .nanoseconds(made.value)
        if clocks.real(token.usableUntil) > end, !isClockExcused(made) {
            let late = clocks.real(token.usableUntil) - end
            accuse(.expiredToken, "\(name(process, user)) publishes a token for \(late) longer than it lives")
        }
        if clocks.instant >= token.usableUntil {
            accuse(.expiredToken, "\(name(process, user)) publishes an ended token")
        }
        guard session.latest?.token !== token.token else { return }
        if session.coordinator.storeError == nil, session.known?.session?.access != token.token {
            accuse(.persisted, "\(name(process, user)) publishes generation \(token.generation), which no store has")
        }
    }

    /// The shards repeat a request, and use a connection again, within one number.
    func checkAccount(_ process: FleetProcess, _ user: Int, _ token: AccessToken, _ made: SimulatedToken) {
        let account = service.account(of: made.session)
        let former = accounts.updateValue(account, forKey: token.account)
        if let former, former != account {
            accuse(.oneAccount, "\(name(process, user)) publishes a token of \(account) as one of \(former)")
        }
    }

    func checkServed(_ process: FleetProcess, _ token: AccessToken) {
        report.checks += 1
        let made = SimulatedToken(token.token)
        let user = token.user.number
        if service.stays[made.session].account != user {
            accuse(.rightUser, "\(name(process, user)) serves a token of user \(service.stays[made.session].account)")
        }
        checkRefusal(process, user)
        let end = made.madeAt + .nanoseconds(made.value)
        if clocks.now >= end, !isClockExcused(made) {
            accuse(.expiredToken, "\(name(process, user)) serves a token \(clocks.now - end) after its end")
        }
    }

    /// No program can know a token's age when its machine was stopped and not yet told the time, or was started with a clock set back.
    func isClockExcused(_ token: SimulatedToken) -> Bool {
        let from = token.madeAt - .seconds(60)
        let isUntold = owesPause || clocks.now < pauseEndedAt + .seconds(45)
        if pauseEndedAt > from, isUntold || isWallSetWrong || wallWrongAt > from { return true }
        return bootedAt > from && wallLostAt > from
    }

    // MARK: States

    /// A session that has ended must have died for a reason.
    func checkEnd(_ process: FleetProcess, _ user: Int, _ state: SessionState) {
        report.checks += 1
        switch state {
        case .refused:
            if !members[user].wasRefused {
                accuse(.neededLife, "\(name(process, user)) is refused, and no service has refused it")
            }
        case .loginRequired:
            if members[user].hasCredential {
                return accuse(.neededLife, "\(name(process, user)) needs an operator in spite of its credential")
            }
            // An open intent stands for a call that is not known to have been made.
            guard members[user].unknownOutcomes == 0, !members[user].isExcused, isStoreTrusted, !isLookOvertaken,
                // Without locks another process may store a login in the middle of a call.
                clocks.now >= lockTroubleAt + .seconds(60),
                // Another process may have stored a login since this one's latest look.
                clocks.now >= members[user].loggedInAt + .seconds(31),
                let stored = storedContents()?[members[user].name], stored.intent?.tries ?? 0 == 0,
                let refresh = stored.session?.refresh, service.accepts(SimulatedToken(refresh), at: clocks.now)
            else { return }
            accuse(.neededLife, "\(name(process, user)) needs an operator beside a live session")
        default: break
        }
    }

    /// After a crash, a loss of power or a plain restart: logged in where it was, and logged out where an operator said so.
    func checkStart(_ process: FleetProcess, _ user: Int, _ stored: StoredUser?) {
        report.checks += 1
        let state = process.sessions[user].glance.state
        guard let stored else { return }
        if stored.isLoggedOut {
            if state != .loggedOut {
                accuse(.sameAfterCrash, "\(name(process, user)) was logged out and starts \(state)")
            }
        } else if let session = stored.session, session.refresh != nil {
            let isHere = [.valid, .refreshing, .stale, .unreachable].contains(state)
            let isLost = stored.intent?.tries ?? 0 > 0 && !members[user].hasCredential && state == .loginRequired
            if !isHere, !isLost { accuse(.sameAfterCrash, "\(name(process, user)) was logged in and starts \(state)") }
        } else if let refusal = members[user].refusal, stored.generation <= refusal.generation, state.isAuthenticated {
            accuse(.refusalHolds, "\(name(process, user)) was refused and starts \(state)")
        }
    }

    /// A session has come to `refused`, and the store has it: neither a restart nor another process may continue with what was there.
    func remember(refusalOf stored: StoredUser?, _ user: Int, _ session: FleetSession) {
        guard let stored, stored.session?.refresh == nil, session.glance.state == .refused else { return }
        // What another process has made of the user since is that one's.
        guard stored.session == nil || stored.version == session.coordinator.base else { return }
        members[user].refusal = (stored.generation, clocks.now)
    }

    /// Every other process looks at the store every 30 s, unless it waits for a lock or a call.
    private func checkRefusal(_ process: FleetProcess, _ user: Int) {
        guard let refusal = members[user].refusal, process.sessions[user].glance.base.generation <= refusal.generation,
            process.sessions[user].glance.state.isAuthenticated, isStoreTrusted
        else { return }
        let since = [refusal.at, asleepUntil, pauseEndedAt, diskTroubleAt, lockTroubleAt, process.startedAt].max()!
        guard clocks.now > since + .seconds(180) else { return }
        let age = clocks.now - refusal.at
        accuse(.refusalHolds, "\(name(process, user)) serves a session that a refusal has ended \(age) ago")
    }

    func excuse(_ user: Int) {
        members[user].isExcused = true
        members[user].excusedAt = clocks.now
        guard members[user].isOneUse else { return }
        members[user].recorded = nil
        for process in running { process.sessions[user].recorded = nil }
    }

    func checkProgress(_ process: FleetProcess, _ user: Int) {
        let session = process.sessions[user]
        guard session.glance.due <= clocks.instant else { return }
        session.spin =
            session.spin.at == clocks.instant ? (clocks.instant, session.spin.times + 1) : (clocks.instant, 1)
        if session.spin.times > 20 {
            accuse(.progress, "\(name(process, user)) spins in \(session.glance.state)")
        }
    }

    /// At the end of some quiet minutes every session that can live has a token.
    func audit() {
        // A machine that slept may come to it in the next quiet minutes, or after them.
        guard clocks.now >= holidayUntil - .seconds(15), clocks.now < holidayUntil + .seconds(5), condition == .clear
        else { return }
        for process in running where clocks.now - process.startedAt > .seconds(600) {
            for user in members.indices { audit(process, user) }
        }
    }

    private func audit(_ process: FleetProcess, _ user: Int) {
        report.checks += 1
        let state = process.sessions[user].glance.state
        // Whether a session without a credential has died rightly was judged when it did.
        // An operator whose login has failed is told so, and it is not tried again.
        let stored = storedContents()?[members[user].name]
        auditDeletion(process, user)
        auditVariants(process, user)
        // A session beside that mark: a deletion was cut off, and the next start of its process ends it.
        if stored?.isLoggedOut == true, stored?.session == nil, state.isAuthenticated,
            clocks.now > members[user].loggedOutAt + .seconds(45)
        {
            return accuse(.logoutHolds, "\(name(process, user)) is \(state), and the store says logged out")
        }
        // Where another process has logged in, a session that has ended here continues with that.
        let isAlone = plan.processes == 1 || stored?.session == nil
        let hasEnded =
            stored?.isLoggedOut == true
            || state == .loggedOut && (members[user].isLoggedOut || plan.processes > 1 && isAlone)
            || !members[user].hasCredential && isAlone
                && (state == .loginRequired || !process.sessions[user].coordinator.context.hasEverBeenLoggedIn)
        guard ![.valid, .refreshing].contains(state), !hasEnded else { return }
        // The next look finds it.
        if !isAlone, clocks.now < members[user].loggedInAt + .seconds(45) { return }
        // What was refused is not tried again until it changes, or an operator asks.
        let fingerprint = Self.fingerprint(user, members[user].password)
        if state == .refused, stored?.refused == fingerprint { return }
        if process.startedAt > holidayUntil - .seconds(900), [.loginRequired, .refused].contains(state) { return }
        // It waits for the end of its access tokens.
        if process.sessions[user].coordinator.session.tokens?.lastTry != nil { return }
        accuse(.revival, "\(name(process, user)) is \(state) after quiet minutes")
    }

    func name(_ process: FleetProcess, _ user: Int) -> String {
        "user \(user) in process \(process.number).\(process.life)"
    }
}
