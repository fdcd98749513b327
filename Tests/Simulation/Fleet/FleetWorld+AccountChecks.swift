import LanyardFoundations
import LanyardSessionInterface
import LanyardSessions
import LanyardSettings

/// What must hold of links, deletions and credentials for one login.
extension FleetWorld {
    // MARK: Calls about accounts

    func checkAccountCall(_ process: FleetProcess, _ user: Int, _ token: SimulatedToken) {
        report.checks += 1
        guard let change = process.accountChanges[user] else { return }
        if change.sent.count >= 2 { accuse(.accountCall, "\(name(process, user)) makes a call a third time") }
        if change.sent.contains(token) { accuse(.accountCall, "\(name(process, user)) repeats a refused token") }
    }

    /// A token that was refused is renewed, and the call is made again, unless the response spoke of the credential.
    func checkAccountFailure(
        _ error: UserError, _ change: FleetAccountChange, _ process: FleetProcess, _ user: Int
    ) {
        report.checks += 1
        guard case .identity(let error) = error, error.status == 401, error.code == "InvalidSession",
            change.sent.count == 1, !change.isRenewed,
            process.sessions[user].coordinator.sessionID == change.session
        else { return }
        accuse(.accountCall, "\(name(process, user)) gives up after the first refused token")
    }

    /// The access token of a link is stored beside the refresh token of its own session.
    func checkLink(_ login: StoreChange.StoredLogin, _ user: Int) {
        guard login.isLink, let refresh = login.session.refresh else { return }
        report.checks += 1
        let (access, own) = (SimulatedToken(login.session.access).session, SimulatedToken(refresh).session)
        if access != own { accuse(.linkedSession, "user \(user) has a link's token of session \(access) in \(own)") }
    }

    // MARK: Deletions

    /// The service has deleted the account. If the operator has been told otherwise, or logs in at the same time, what
    /// follows is as if it had not.
    func remember(deletionBy call: FleetCall) {
        report.count(.accountDeleted)
        // A login that was sent half a minute before the request may have ended after it.
        guard !call.isCompleted, members[call.user].givenAt < call.requestedAt - .seconds(31) else { return }
        members[call.user].deletedAt = clocks.now
    }

    /// After a deletion only an operator logs in.
    func checkDeletion(_ process: FleetProcess, _ user: Int, _ call: SessionCall, isGiven: Bool) {
        if isGiven { (members[user].deletedAt, members[user].givenAt) = (nil, clocks.now) }
        guard let deletedAt = members[user].deletedAt else { return }
        report.checks += 1
        let since = clocks.now - deletedAt
        guard isStoreTrusted, !members[user].isExcused else { return }
        accuse(.deletionHolds, "\(name(process, user)) logs in (\(call.cause.rawValue)) \(since) after the deletion")
    }

    /// At the end of some quiet minutes nothing of a deleted account is left, here or in the store.
    func auditDeletion(_ process: FleetProcess, _ user: Int) {
        guard members[user].deletedAt != nil, running.count == plan.processes,
            running.allSatisfy({ clocks.now - $0.startedAt > .seconds(600) })
        else { return }
        report.checks += 1
        if storedContents()?[members[user].name]?.session != nil {
            accuse(.deletionHolds, "the store has a session of user \(user), whose account is deleted")
        } else if process.sessions[user].glance.state.isAuthenticated {
            accuse(.deletionHolds, "\(name(process, user)) has a session, and its account is deleted")
        }
    }

    // MARK: Credentials for one login

    /// What was refused, or has served, is not sent again by a process that knows it.
    func checkSpent(_ process: FleetProcess, _ user: Int, _ password: Int, _ call: SessionCall) {
        guard members[user].isOneUse else { return }
        report.checks += 1
        let isStored = members[user].recorded?.password == password && isStoreTrusted
        guard isStored || process.sessions[user].recorded?.password == password else { return }
        accuse(.spentOnce, "\(name(process, user)) sends credential \(password) again (\(call.cause.rawValue))")
    }

    /// A login has its response: what follows for the credential that it sent.
    func recordCredential(_ result: Result<Grant, IdentityError>, _ call: FleetCall, _ session: FleetSession) {
        guard members[call.user].isOneUse, call.token == nil else { return }
        session.latestOutcome = nil
        guard !call.isGiven else { return }
        switch result {
        case .success(let grant):
            if let before = session.recorded, before.password != call.password { report.count(.newCredentialTaken) }
            session.latestOutcome =
                grant.spentCredential == nil ? .forgotten : .recorded(.init(password: call.password, isSpent: true))
        case .failure(let error) where error.verdict == .credentialRefused:
            session.latestOutcome = .recorded(
                .init(password: call.password, isSpent: error.credential?.isSpent == true))
        default: break
        }
    }

    /// It may have died just after the store took an operator's login with another credential, which makes a refusal forgotten.
    func recordLogins(ofDying process: FleetProcess) {
        guard let stored = storedContents() else { return }
        for user in process.sessions.indices where members[user].recorded?.isSpent == false {
            guard let user = stored[members[user].name].map({ ($0, user) }), user.0.refused == nil,
                user.0.provider != nil, user.0.provider != members[user.1].login.provider
            else { continue }
            members[user.1].recorded = nil
        }
    }

    /// A session has the store record what the latest login says of its credential, or an operator's login that makes a
    /// refusal forgotten.
    func recordCredential(_ change: StoreChange, _ process: FleetProcess, _ user: Int, isStored: Bool) {
        guard members[user].isOneUse else { return }
        let session = process.sessions[user]
        switch change {
        case .saveSession(_, let login, _) where login.provider == nil: return
        case .saveSession(_, let login, _) where login.provider != members[user].login.provider:
            let learners = isStored ? running.map { $0.sessions[user] } : [session]
            for learner in learners where learner.recorded?.isSpent == false { learner.recorded = nil }
            if isStored, members[user].recorded?.isSpent == false { members[user].recorded = nil }
        case .saveSession, .recordRefusal:
            // Without locks, or intents, another process may store something else in its place.
            switch session.latestOutcome {
            case .recorded(let record) where !members[user].isExcused: session.recorded = record
            case .forgotten: session.recorded = nil
            case .recorded, nil: break
            }
            session.latestOutcome = nil
            guard isStored else { return }
            members[user].recorded = session.recorded
            // The store remembers one content. Each process reads it before its next login.
            for other in running where other !== process { other.sessions[user].recorded = nil }
        default: return
        }
    }

    /// A session that needs a login tries a new credential at once.
    func checkNewCredential(_ process: FleetProcess, _ user: Int) {
        report.checks += 1
        guard processes[process.number] === process, process.sessions[user].glance.state == .refused else { return }
        accuse(.newCredential, "\(name(process, user)) is refused after a new credential was written")
    }
}
