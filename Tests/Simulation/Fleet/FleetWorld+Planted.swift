import LanyardFoundations
import LanyardSessionInterface
import LanyardSessions
import LanyardSettings
import LanyardVault

/// Mistakes that a run is told to make.
extension FleetWorld {
    func plantInDisk() {
        switch plan.bug {
        case .noFileSync: disk.tricks.skipsFileSync = true
        case .noFolderSync: disk.tricks.skipsFolderSync = true
        case .lockAlwaysGranted: disk.tricks.grantsEveryLock = true
        default: break
        }
    }

    /// What the store is told instead.
    func planted(_ change: StoreChange) -> StoreChange {
        switch (plan.bug, change) {
        case (.refusalKeepsSession, .recordRefusal(let user, let identity, let fingerprint, _)):
            return .recordRefusal(user: user, identity: identity, fingerprint)
        case (.fetchedRotationUnstored, .saveSession(let user, var login, let base)):
            let stored = storedContents()?[user]?.session
            guard let stored, stored.access == login.session.access, stored.tokens != login.session.tokens else {
                return change
            }
            login.session.refresh = stored.refresh
            return .saveSession(user: user, login, base: base)
        case (.rotationForgotten, .saveSession(let user, var login, let base)):
            login.session.hasRotated = false
            return .saveSession(user: user, login, base: base)
        case (.spentForgotten, .saveSession(let user, var login, let base)):
            login.refused = nil
            return .saveSession(user: user, login, base: base)
        case (.endedForgotten, .logOut(let user, let identity, var end)):
            end.version = SessionVersion(
                session: storedContents()?[user]?.session?.id ?? 0, generation: Generation(.max))
            return .logOut(user: user, identity: identity, end)
        case (.deletionMarkLost, .saveSession(let user, var login, let base)):
            login.keepsLogout = false
            return .saveSession(user: user, login, base: base)
        default: return change
        }
    }

    /// What becomes of a call about an account instead.
    func plantedStep(_ step: AccountAttempt.Step, _ process: FleetProcess, _ user: Int) -> AccountAttempt.Step {
        guard case .renew = step, let sent = process.accountChanges[user]?.sent.last else { return step }
        switch plan.bug {
        case .refusedLinkGivenUp:
            let message = "planted"
            return .fail(.identity(IdentityError(.callRefused, status: 401, code: "InvalidSession", message: message)))
        case .refusedLinkRepeated: return .send(sent.secret)
        default: return step
        }
    }

    /// What the store answers instead of doing what it should; nil: it does that.
    func plantedCommit(
        _ change: StoreChange, _ process: FleetProcess, _ user: Int
    ) -> Result<StoreChange.Verdict, StoreError>? {
        let session = process.sessions[user]
        switch (plan.bug, change) {
        case (.noIntent, .storeIntent(_, _, let intent, _, _, _, _)):
            guard var stored = storedContents()?[members[user].name] else { return nil }
            stored.intent = intent
            return .success(.stored(stored))
        case (.deletionUnmarked, .beginDeletion):
            guard var stored = storedContents()?[members[user].name] else { return nil }
            stored.markDeletion(true)
            return .success(.stored(stored))
        case (.intentNeverSettled, .clearIntent): return .success(.stored(storedContents()?[members[user].name]))
        case (.noReadAfterLock, .storeIntent(_, _, let intent, _, _, _, _)):
            guard var known = session.known else { return nil }
            known.intent = intent
            return .success(.stored(known))
        case (.wholeFileOverwrite, _): return overwrite(change, process)
        default: return nil
        }
    }

    /// What the processes are configured with.
    var plantedRefreshTokens: RefreshTokenSettings {
        switch (plan.bug, plan.rotation) {
        case (.oneUseRetried, .oneUse): RefreshTokenSettings(.grace)
        case (.graceWindowIgnored, .grace): RefreshTokenSettings(.grace)
        default: plan.refreshTokens
        }
    }

    /// What is done beside, once the store has taken it.
    func plantedStored(_ change: StoreChange, _ process: FleetProcess, _ user: Int) {
        guard plan.bug == .revokesOwn, case .saveSession(_, let login, _) = change, login.provider == nil,
            let token = login.session.refresh
        else { return }
        let revocation = StoredRevocation(identity: Self.identity, token: token, since: clocks.wall)
        checkRevoked(process, user, revocation)
        revoke(process, user, revocation)
    }

    /// Writes what the process believes of all users, in place of what is there.
    private func overwrite(
        _ change: StoreChange, _ process: FleetProcess
    ) -> Result<StoreChange.Verdict, StoreError> {
        do {
            let verdict = process.copy.apply(change, now: clocks.wall)
            process.copy.writes += 1
            let bytes = try StoreText.write(process.copy).withBytes { try sealing.seal($0) }
            try process.gate.remove(storePath.temporary)
            let draft = try process.gate.create(storePath.temporary)
            var rest = bytes[...]
            while !rest.isEmpty { rest = try rest.dropFirst(rest.withUnsafeBytes { try draft.write($0) }) }
            try draft.sync()
            try process.gate.rename(storePath.temporary, to: storePath.name)
            try process.gate.syncFolder()
            switch verdict {
            case .stored(let stored), .storedEnding(let stored, _): checkStored(change, stored, user(of: stored))
            case .overtaken, .inUse: break
            }
            return .success(verdict)
        } catch {
            return .failure(StoreError(.busy, message: "planted"))
        }
    }

    private func user(of stored: StoredUser?) -> Int { members.firstIndex { $0.name == stored?.name } ?? 0 }

    /// What a process hears instead of the response.
    func plantedResponse(
        _ result: Result<Grant, IdentityError>, _ call: FleetCall, _ process: FleetProcess
    ) -> Result<Grant, IdentityError> {
        guard let bug = plan.bug else { return result }
        let session = process.sessions[call.user]
        switch (bug, result) {
        case (.publishBeforePersist, .success(let grant)):
            let until = clocks.instant + grant.lifetime * 0.5
            let token = AccessToken(
                user: UserIndex(call.user), generation: session.coordinator.context.generation.next.number,
                token: grant.accessToken,
                waitsFrom: until, usableUntil: until)
            publish(process, call.user, .token(token))
        case (.retryAfterIgnored, .failure(var fault)):
            guard case .transient = fault.verdict else { return result }
            fault.verdict = .transient(retryAfter: nil)
            return .failure(fault)
        case (.outageIsDeath, .failure(var fault)):
            guard case .transient = fault.verdict, call.token != nil else { return result }
            fault.verdict = .sessionDead
            return .failure(fault)
        case (.lifeFromArrival, .success(var grant)):
            grant.lifetime = grant.lifetime + (clocks.instant - (call.call?.startedAt ?? clocks.instant))
            return .success(grant)
        case (.responsesSwapped, .success(var grant)):
            let other = (call.user + 1) % members.count
            guard let token = process.sessions[other].latest?.token else { return result }
            grant.accessToken = token
            return .success(grant)
        case (.lateResponseRevives, .success(let grant)):
            guard members[call.user].isLoggedOut, let stored = storedContents()?[members[call.user].name] else { break }
            let revived = StoredSession(
                id: random.next() | 1, access: grant.accessToken, refresh: grant.refreshToken, refreshExpiry: nil,
                issuedAt: clocks.wall, issuedAtBoot: clocks.bootInstant, lifetime: grant.lifetime)
            let login = StoreChange.StoredLogin(
                identity: Self.identity, session: revived, accountID: nil,
                provider: nil, isAdded: false)
            enqueue(process, call.user, .commit(.saveSession(user: stored.name, login, base: stored.version)))
        default: break
        }
        return result
    }
}
