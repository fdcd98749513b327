import LanyardFoundations
import LanyardSessionInterface
import LanyardSessions
import LanyardSettings

/// Links and deletions: the real registry admits them, the real `AccountAttempt` decides. Between these and the sessions
/// the world does what `UserService` and `AccountCallRunner` do.
extension FleetWorld {
    // MARK: Calls of operators

    /// What the registry of this process makes of an operator's call, now that it knows the user's state.
    func admit(_ call: UserCall, _ user: Int, at process: FleetProcess) -> (
        id: UserRegistry.UserCallID, actions: [UserRegistry.Action]
    ) {
        let id = UserRegistry.UserCallID(random.next())
        let coordinator = process.sessions[user].coordinator
        let snapshot = UserRegistry.SessionSnapshot(
            state: coordinator.session.state, accountID: coordinator.context.accountID, provider: coordinator.provider)
        _ = process.registry?.handle(.changed(UserIndex(user), snapshot))
        return (id, process.registry?.handle(.called(call, id)) ?? [])
    }

    /// An operator links or deletes an account.
    func begin(_ kind: FleetAccountChange.Kind, _ user: Int, at process: FleetProcess) {
        guard processes[process.number] === process else { return }
        let name = members[user].name
        let credential = LoginMethod<Secret>.apiKey(Secret(capacity: 1) { _ in 1 })
        let admitted = admit(kind == .deletion ? .deleteAccount(name) : .link(name, credential), user, at: process)
        guard admitted.actions.contains(.callAccount(admitted.id, UserIndex(user))) else { return }
        let isRefreshing = process.sessions[user].glance.state == .refreshing
        var change = FleetAccountChange(
            kind, admitted.id, session: process.sessions[user].coordinator.sessionID, at: clocks.now)
        switch kind {
        case .link:
            if isRefreshing { report.count(.linkDuringRefresh) }
            let step = change.attempt.begin(tokens(of: user, at: process), at: clocks.instant)
            process.accountChanges[user] = change
            follow(step, process, user)
        case .deletion:
            if isRefreshing { report.count(.deletionDuringRefresh) }
            let ticket = random.next()
            change.demand = (.mark, ticket)
            process.accountChanges[user] = change
            deliver(process, user, .beginDeletion, ticket: ticket)
        }
    }

    private func tokens(of user: Int, at process: FleetProcess) -> SessionTokens? {
        process.sessions[user].coordinator.session.tokens
    }

    private func follow(_ step: AccountAttempt.Step, _ process: FleetProcess, _ user: Int) {
        switch plantedStep(step, process, user) {
        case .send(let token): send(token, process, user)
        case .renew:
            let ticket = random.next()
            process.accountChanges[user]?.demand = (.renewal, ticket)
            process.accountChanges[user]?.isRenewed = true
            if process.accountChanges[user]?.kind != .deletion { report.count(.linkRenewed) }
            process.sessions[user].isAsked = true
            deliver(process, user, .refresh, ticket: ticket)
        case .fail(let error): fail(error, process, user)
        }
    }

    // MARK: Calls

    private func send(_ token: Secret, _ process: FleetProcess, _ user: Int) {
        guard survives(process, .account), let kind = process.accountChanges[user]?.kind else { return }
        let made = SimulatedToken(token)
        checkAccountCall(process, user, made)
        process.accountChanges[user]?.sent.append(made)
        process.accountChanges[user]?.startedAt = clocks.instant
        process.accountChanges[user]?.startedAtWall = clocks.wall
        let isFair = clocks.now < holidayUntil || random.hits(0.7)
        let conditions =
            isFair ? condition(of: process.number) : random.pick([.lossy, .swallowing, .slow, .slow, .failing])
        var call = FleetCall(
            process: process.number, life: process.life, user: user, call: nil,
            outcome: conditions.outcome(isLogin: false, &random))
        call.account = kind
        call.requestedAt = process.accountChanges[user]?.requestedAt ?? clocks.now
        call.token = made
        if let fault = call.outcome.fault { count(fault) }
        let place = keep(call)
        if let reachesIn = call.outcome.reachesIn { heap.plan(.reach(call: place), at: clocks.now + reachesIn) }
        heap.plan(.response(call: place), at: clocks.now + call.outcome.respondsIn)
    }

    /// A call about an account has reached the service.
    func reachAccount(_ place: Int, _ kind: FleetAccountChange.Kind, life: Duration) {
        guard let token = calls[place].token else { return }
        switch kind {
        case .link(let credential):
            calls[place].response = service.link(token, credential, at: clocks.now, life: life)
        case .deletion:
            let response = service.deleteAccount(token, at: clocks.now)
            calls[place].response = response
            if case .accountDeleted = response { remember(deletionBy: calls[place]) }
        }
    }

    /// What a call about an account has come to reaches the process.
    func completeAccountCall(_ place: Int) {
        let call = calls[place]
        calls[place].isCompleted = true
        guard let process = process(call.process, call.life), survives(process, .response) else { return }
        switch accountResult(of: call) {
        case .success(let grant?): link(grant, process, call.user)
        case .success: endDeletion(process, call.user, isDeleted: true)
        case .failure(let error):
            guard var change = process.accountChanges[call.user] else { return }
            let step = change.attempt.handleRefusal(error, tokens(of: call.user, at: process), at: clocks.instant)
            process.accountChanges[call.user] = change
            follow(step, process, call.user)
        }
    }

    /// The grant is nil for a deleted account.
    private func accountResult(of call: FleetCall) -> Result<Grant?, IdentityError> {
        if let verdict = call.outcome.verdict { return .failure(IdentityError(verdict, message: "simulated")) }
        switch call.response {
        case .granted(let access, _, _, _):
            return .success(
                Grant(
                    accessToken: access.secret, refreshToken: nil, userID: nil,
                    lifetime: .nanoseconds(access.value), refreshTokenExpiry: nil,
                    serverDate: WallTime(seconds: (clocks.trueWall + call.outcome.dateError).seconds)))
        case .accountDeleted: return .success(nil)
        case .tokenRefused:
            return .failure(IdentityError(.callRefused, status: 401, code: "InvalidSession", message: "simulated"))
        case .refused:
            return .failure(IdentityError(.callRefused, status: 401, code: "InvalidPassword", message: "simulated"))
        case .dead, .variantRefused, nil:
            return .failure(IdentityError(.transient(retryAfter: nil), message: "simulated"))
        }
    }

    // MARK: Replies of the session

    /// A reply of a session, for the call that waits for it. What follows comes after the present event.
    func receive(_ reply: SessionReply, to ticket: UInt64, _ process: FleetProcess, _ user: Int) {
        if let login = process.logins.removeValue(forKey: ticket) {
            let isLoggedIn = if case .loggedIn = reply { true } else { false }
            _ = process.registry?.handle(isLoggedIn ? .loggedIn(login) : .overtaken(login))
        }
        guard process.accountChanges[user]?.demand?.ticket == ticket else { return }
        process.accountChanges[user]?.reply = reply
        heap.plan(.accountReply(process: process.number, life: process.life, user: user), at: clocks.now)
    }

    func accountReply(_ process: FleetProcess, _ user: Int) {
        guard var change = process.accountChanges[user], let reply = change.reply, let demand = change.demand else {
            return
        }
        (change.reply, change.demand) = (nil, nil)
        let tokens = tokens(of: user, at: process)
        let step: AccountAttempt.Step
        switch (demand.what, reply) {
        case (.renewal, _): step = change.attempt.handleRenewal(reply.refreshError, tokens, at: clocks.instant)
        case (.mark, .deletionBegun): step = change.attempt.begin(tokens, at: clocks.instant)
        case (.mark, _): return close(process, user)
        case (.adoption, _):
            if case .linked = reply { report.count(.linked) } else { report.count(.linkOvertaken) }
            return close(process, user)
        }
        process.accountChanges[user] = change
        follow(step, process, user)
    }

    // MARK: Ends

    /// The service has made a link: whether or not the session takes the token, the account is linked.
    private func link(_ grant: Grant, _ process: FleetProcess, _ user: Int) {
        guard let change = process.accountChanges[user] else { return }
        let session = plan.bug == .linkOfAnotherSession ? process.sessions[user].coordinator.sessionID : change.session
        let obtained = ObtainedSession(
            grant, startedAt: change.startedAt, startedAtWall: change.startedAtWall, continuedSession: session)
        let ticket = random.next()
        process.accountChanges[user]?.demand = (.adoption, ticket)
        deliver(process, user, .obtained(obtained), ticket: ticket)
    }

    private func fail(_ error: UserError, _ process: FleetProcess, _ user: Int) {
        guard let change = process.accountChanges[user] else { return }
        checkAccountFailure(error, change, process, user)
        switch (change.kind, error) {
        case (.link, .serviceOutcomeUnknown): report.count(.linkUnanswered)
        case (.link, _): report.count(.linkRefused)
        case (.deletion, .serviceOutcomeUnknown): report.count(.deletionUnanswered)
        case (.deletion, _): report.count(.deletionRefused)
        }
        change.kind == .deletion ? endDeletion(process, user, isDeleted: false) : close(process, user)
    }

    /// An operator is told whether the account is deleted. If not, or if that is unknown, the user stays logged in.
    private func endDeletion(_ process: FleetProcess, _ user: Int, isDeleted: Bool) {
        guard let call = process.accountChanges[user]?.call else { return }
        if !isDeleted { members[user].deletedAt = nil }
        deliver(process, user, .endDeletion(isDeleted: isDeleted))
        guard processes[process.number] === process else { return }
        guard isDeleted else { return close(process, user) }
        process.accountChanges[user] = nil
        guard plan.bug != .deletedSessionKept,
            process.registry?.handle(.accountDeleted(call)).contains(.logOut(call, UserIndex(user))) == true
        else { return }
        terminate(user, at: process)
    }

    private func close(_ process: FleetProcess, _ user: Int) {
        guard let change = process.accountChanges.removeValue(forKey: user) else { return }
        _ = process.registry?.handle(.accountChangeEnded(change.call))
    }

    /// Links and deletions that the end of their process cuts off.
    func cutOffAccountChanges(of process: FleetProcess) {
        for (user, change) in process.accountChanges {
            switch change.kind {
            case .link: report.count(.linkCutOff)
            case .deletion: report.count(members[user].deletedAt == nil ? .deletionCutOffBefore : .deletionCutOffAfter)
            }
        }
    }
}
