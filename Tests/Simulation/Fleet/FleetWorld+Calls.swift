import LanyardFoundations
import LanyardRequestPath
import LanyardSessionInterface
import LanyardSessions
import LanyardSettings

/// Calls on their way to the service and back.
extension FleetWorld {
    private static let timeout = Duration.seconds(30)

    func logIn(
        _ process: FleetProcess, _ user: Int, _ credential: Credential, _ refused: CredentialFingerprint?,
        _ call: SessionCall
    ) {
        let password =
            switch credential {
            case .given(let given): given.secret?.count ?? 0
            case .configured: members[user].password
            }
        let fingerprint = Self.fingerprint(user, password)
        if let refused, refused.isSame(as: fingerprint), plan.bug != .spentSentAgain || !refused.isSpent {
            // The guard of a refused credential: no call.
            let outcome = FleetCondition.Outcome(respondsIn: .milliseconds(1), verdict: .credentialRefused)
            var sent = FleetCall(process: process.number, life: process.life, user: user, call: call, outcome: outcome)
            sent.password = password
            sent.variant = variant(of: call)
            sent.heldBack = refused
            holdBack(user, refused)
            return send(sent, process, isCall: false)
        }
        // Of a logout in one process and a login in the other at the same time the login comes later if its call does.
        if call.cause == .asked, plan.processes > 1 { members[user].isLoggedOut = false }
        checkLogin(process, user, call)
        if call.variant != .plain { checkFetch(process, user, call) }
        let isGiven = if case .given = credential { true } else { false }
        checkDeletion(process, user, call, isGiven: isGiven)
        if !isGiven { checkSpent(process, user, password, call) }
        var sent = FleetCall(
            process: process.number, life: process.life, user: user, call: call,
            outcome: condition(of: process.number).outcome(isLogin: true, &random))
        sent.password = password
        sent.variant = variant(of: call)
        sent.isGiven = isGiven
        send(sent, process, isCall: true)
        if call.cause != .asked { mayMendMeanwhile(user, until: clocks.now + sent.outcome.respondsIn) }
        if members[user].isOneUse, random.hits(0.1) {
            let at = clocks.now + sent.outcome.respondsIn * random.chance()
            heap.plan(.relief(.credentialRenewed(user: user)), at: at)
        }
    }

    func refresh(
        _ process: FleetProcess, _ user: Int, _ secret: Secret, _ call: SessionCall, _ outcome: FleetCondition.Outcome
    ) {
        var token = SimulatedToken(secret)
        let session = process.sessions[user]
        if plan.bug == .oldTokenAfterFailedSave, session.failedSave, let old = session.known?.session?.refresh {
            token = SimulatedToken(old)
        }
        checkRefresh(process, user, token, call)
        if call.variant != .plain { checkFetch(process, user, call) }
        var sent = FleetCall(process: process.number, life: process.life, user: user, call: call, outcome: outcome)
        sent.token = token
        sent.variant = variant(of: call)
        if !members[user].variants.isEmpty { checkRotationStored(process, user, token) }
        send(sent, process, isCall: true)
        plantSecondLane(sent, process)
    }

    func revoke(_ process: FleetProcess, _ user: Int, _ revocation: StoredRevocation) {
        let outcome = condition(of: process.number).outcome(isLogin: false, &random)
        guard let reachesIn = outcome.reachesIn else { return process.revocations.append(revocation) }
        enqueue(process, user, .background(.removeRevocation(revocation.token)))
        var sent = FleetCall(process: process.number, life: process.life, user: user, call: nil, outcome: outcome)
        sent.token = SimulatedToken(revocation.token)
        heap.plan(.reach(call: keep(sent)), at: clocks.now + reachesIn)
    }

    /// Once in a while the service is told again of sessions that have ended.
    func revokeAgain(_ process: FleetProcess) {
        planRevocations(process)
        let open = process.revocations
        process.revocations = []
        for revocation in open { revoke(process, 0, revocation) }
    }

    func planRevocations(_ process: FleetProcess) {
        let at = clocks.now + max(plan.unit * 0.1, .seconds(60))
        heap.plan(.revocations(process: process.number, life: process.life), at: at)
    }

    func send(_ call: FleetCall, _ process: FleetProcess, isCall: Bool) {
        let place = keep(call)
        if let token = call.token, !members[call.user].variants.isEmpty, !call.isUnsent {
            checkLane(process, call.user, token)
            openRefreshes[call.user].append(place)
        }
        process.sessions[call.user].call = place
        process.sessions[call.user].responseAt = clocks.now + call.outcome.respondsIn
        process.sessions[call.user].wasAsked =
            process.sessions[call.user].isAsked || [.asked, .fetchRefused].contains(call.call?.cause)
        process.sessions[call.user].isAsked = false
        process.sessions[call.user].wasLeft = false
        process.sessions[call.user].wasFetch = call.variant != nil
        // Its response is late, or none.
        if call.outcome.fault != nil { process.sessions[call.user].troubledAt = clocks.now }
        if isCall {
            if let fault = call.outcome.fault { count(fault) }
            countCall(call.user)
        }
        if let reachesIn = call.outcome.reachesIn { heap.plan(.reach(call: place), at: clocks.now + reachesIn) }
        heap.plan(.response(call: place), at: clocks.now + call.outcome.respondsIn)
        if plan.drains { mayDrain(process, awaiting: call) }
    }

    func keep(_ call: FleetCall) -> Int {
        var call = call
        let isAwaited = call.call != nil || call.account != nil
        call.eventsToCome = (call.outcome.reachesIn == nil ? 0 : 1) + (isAwaited ? 1 : 0)
        guard let place = spareCalls.popLast() else {
            calls.append(call)
            return calls.count - 1
        }
        calls[place] = call
        return place
    }

    private func release(_ place: Int) {
        calls[place].eventsToCome -= 1
        if calls[place].eventsToCome == 0 { spareCalls.append(place) }
    }

    // MARK: At the service

    func reach(_ place: Int) {
        let call = calls[place]
        defer { release(place) }
        let stretch = call.variant.map { plan.members[call.user].variants[$0].stretch } ?? 1
        let life = max(plan.lifetime * (call.outcome.stretch * stretch), .seconds(2))
        if call.variant != nil { report.fetches += 1 }
        if let kind = call.account { return reachAccount(place, kind, life: life) }
        if call.call == nil, let token = call.token { return service.revoke(token) }
        if let token = call.token {
            report.refreshes += 1
            let response = service.refresh(token, variant: call.variant, at: clocks.now, life: life)
            countFetch(call, token, response)
            if case .dead(let death) = response {
                if death == .repeated { count(.familyKilled) }
                if death == .expired { count(.refreshTokenExpired) }
            }
            if case .granted(_, _, _, let isRotation) = response, isRotation { hide(call) }
            calls[place].response = response
        } else {
            report.logins += 1
            calls[place].response = service.logIn(
                call.user, password: call.password, isGiven: call.isGiven, variant: call.variant, at: clocks.now,
                life: life)
        }
    }

    /// The service has changed the refresh token: does the caller learn that?
    private func hide(_ call: FleetCall) {
        guard let verdict = call.outcome.verdict else { return }
        count(.responseLostAfterRotation)
        // A response that says "not done" when it was done: no client can know.
        if case .transient = verdict { excuse(call.user) }
    }

    // MARK: Back at the process

    func response(_ place: Int) {
        let call = calls[place]
        defer { release(place) }
        if call.account != nil { return completeAccountCall(place) }
        openRefreshes[call.user].removeAll { $0 == place }
        guard let process = process(call.process, call.life), let asked = call.call, !call.isGivenUp else { return }
        guard survives(process, .response) else { return }
        let session = process.sessions[call.user]
        if session.call == place { session.call = nil }
        var result = result(of: call)
        if call.variant != nil { recordFetch(result, call, process) }
        if call.outcome.fault != nil { session.troubledAt = clocks.now }
        recordResult(result, call, session)
        recordCredential(result, call, session)
        result = plantedResponse(result, call, process)
        deliver(process, call.user, .callCompleted(result, asked))
    }

    private func result(of call: FleetCall) -> Result<Grant, IdentityError> {
        let fingerprint = call.token == nil ? Self.fingerprint(call.user, call.password) : nil
        let isSpent = members[call.user].isKnownOneUse && call.token == nil && !call.isGiven
        func fault(_ verdict: IdentityError.Verdict) -> Result<Grant, IdentityError> {
            var error = IdentityError(verdict, message: "simulated", credential: call.heldBack ?? fingerprint)
            if call.token != nil, let response = call.outcome.response {
                (error.status, error.refreshResponse) = (response.status, response)
            }
            return .failure(error)
        }
        if isSpent, call.outcome.fault == .shortLifetime, case .granted? = call.response {
            // The service has taken the credential, although its response is unusable.
            return .failure(
                IdentityError(.credentialRefused, message: "simulated", credential: fingerprint?.spent))
        }
        if let verdict = call.outcome.verdict { return fault(verdict) }
        switch call.response {
        case nil, .tokenRefused, .accountDeleted: return fault(.transient(retryAfter: nil))
        case .variantRefused: return fault(.clientRefused)
        case .dead: return fault(.sessionDead)
        case .refused: return fault(.credentialRefused)
        case .granted(let access, let refresh, let stay, _):
            let life = Duration.nanoseconds(access.value)
            let end = clocks.trueWall + (service.stays[stay].endsAt - clocks.now)
            var grant = Grant(
                accessToken: access.secret, refreshToken: refresh?.secret,
                userID: call.token == nil ? service.account(of: stay) : nil, lifetime: life,
                refreshTokenExpiry: plan.tellsExpiry && refresh != nil ? end : nil,
                serverDate: WallTime(seconds: (clocks.trueWall + call.outcome.dateError).seconds))
            // Every second service gives its accounts no id: a login names them in another way (refresh-outcomes.md 11).
            if plan.seed & 2 == 0, call.token == nil {
                grant.account = AccountFingerprint(of: [service.account(of: stay)])
            }
            if isSpent { grant.spentCredential = fingerprint?.spent }
            if let variant = call.variant { grant.audienceMismatch = mismatch(access, variant) }
            return .success(grant)
        }
    }

    /// What the checks remember of a response that a process has got.
    private func recordResult(_ result: Result<Grant, IdentityError>, _ call: FleetCall, _ session: FleetSession) {
        let before = members[call.user].unknownOutcomes
        // A late response to a call with the refresh token of a former session ends no call of the present one.
        let isOfLatest = call.token == nil || call.token == members[call.user].sent
        defer { session.unsettled += before - members[call.user].unknownOutcomes }
        switch result {
        case .success(let grant):
            session.notBefore = .past
            session.goneUntil = .past
            if let refresh = grant.refreshToken { session.newest = SimulatedToken(refresh) }
            members[call.user].shortestLife = min(members[call.user].shortestLife, grant.lifetime)
            if isOfLatest { members[call.user].unknownOutcomes = 0 }
            members[call.user].wasRefused = false
        case .failure(let fault):
            session.troubledAt = clocks.now
            switch fault.verdict {
            case .unknownOutcome: break
            case .credentialRefused, .unknownApp, .credentialDoubted: members[call.user].wasRefused = true
            default: break
            }
            // The pause of a 410, and what it is spread by.
            if fault.verdict == .gone { session.goneUntil = clocks.instant + .seconds(320) }
            if fault.verdict == .sessionDead { members[call.user].wasDeclaredDead = true }
            if call.token != nil, isOfLatest, !call.isUnsent, fault.verdict != .unknownOutcome {
                // The response says that the token was not taken: its mark goes, and it may be sent and marked again.
                members[call.user].marked = nil
                members[call.user].unknownOutcomes = max(0, members[call.user].unknownOutcomes - 1)
            }
            // An operator's login that fails does not concern the current session.
            if case .transient(let after?) = fault.verdict, call.token != nil || call.call?.cause != .asked {
                session.delay(by: after, at: clocks.instant)
            }
        }
    }

    /// As the identity service makes one, without its hash.
    static func fingerprint(_ user: Int, _ password: Int) -> CredentialFingerprint {
        CredentialFingerprint(
            bytes: [UInt8(user), UInt8(truncatingIfNeeded: password), UInt8(truncatingIfNeeded: password >> 8)]
                + [UInt8](repeating: 9, count: 29))
    }

    // MARK: Operators

    /// An operator logs in with what is right, at one of the processes.
    func logIn(_ user: Int) {
        if let process = running.randomElement(&random) { logIn(user, at: process) }
    }

    func logIn(_ user: Int, at process: FleetProcess) {
        let password = service.accounts[user].password
        let credential = LoginMethod<Secret>.emailPassword(
            email: members[user].name, password: Secret(capacity: password) { _ in password })
        let ticket = random.next()
        if process.registry != nil {
            let admitted = admit(.login(members[user].name, credential, activates: false), user, at: process)
            guard admitted.actions.contains(.logIn(admitted.id, UserIndex(user))) else {
                // Another login, a link or a deletion is in progress.
                let again = clocks.now + .seconds(60) * (1 + random.chance())
                return heap.plan(.relief(.operatorLogsIn(user: user)), at: again)
            }
            process.logins[ticket] = admitted.id
        }
        count(.loggedIn)
        members[user].isLoggedOut = false
        members[user].wantsOut = false
        let session = process.sessions[user]
        session.isAsked = true
        session.wasLeft = session.call != nil
        deliver(process, user, .login(.given(credential)), ticket: ticket)
    }

    func refreshNow(_ user: Int, at process: FleetProcess) {
        process.sessions[user].isAsked = true
        if process.sessions[user].variants.contains(where: \.hasFailed) { report.count(.variantRetriedByOperator) }
        // The seeds of `FleetRegression` count on this draw.
        _ = random.next()
        deliver(process, user, .refresh)
    }

    func logOut(_ user: Int, at process: FleetProcess) {
        if process.registry != nil {
            let admitted = admit(.logOut(members[user].name), user, at: process)
            let (id, index) = (admitted.id, UserIndex(user))
            var actions = admitted.actions
            if actions.contains(.readStored(id, index)) {
                let hasSession = storedContents()?[members[user].name]?.session != nil
                actions = process.registry?.handle(.storeRead(id, index, hasSession: hasSession)) ?? []
            }
            guard actions.contains(.logOut(id, index)) else { return }
        }
        count(.loggedOut)
        terminate(user, at: process)
    }

    /// An operator's logout, or the end of a deletion.
    func terminate(_ user: Int, at process: FleetProcess) {
        members[user].wantsOut = true
        process.sessions[user].isAsked = true
        process.sessions[user].wasLeft = process.sessions[user].call != nil
        deliver(process, user, .terminate(.logOut, id: random.next()))
    }

    /// The credential's file gets the right password, and those who watch it notice.
    func mendCredential(of user: Int) {
        guard !service.isRight(password: members[user].password, of: user) else { return }
        count(.credentialMended)
        let right = service.accounts[user].password
        // An operator's second attempt may be as wrong as the first.
        let isWrong = clocks.now >= holidayUntil && random.hits(0.3)
        members[user].password = isWrong ? right + 100 + random.below(100) : right
        if isWrong {
            heap.plan(.relief(.credentialMended(user: user)), at: clocks.now + plan.unit * (0.5 * random.chance()))
        }
        announceCredential(of: user)
    }
}
