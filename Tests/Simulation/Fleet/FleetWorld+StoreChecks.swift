import LanyardFoundations
import LanyardSessionInterface
import LanyardSessions
import LanyardSettings
import LanyardVault

/// What must hold of the store's file.
extension FleetWorld {
    /// Nothing is in the way of what the store says: the checks that lean on it may.
    var isStoreTrusted: Bool { !disk.isTroubled && clocks.now >= diskTroubleAt + .seconds(60) && diskWorks }

    private var diskWorks: Bool { open.allSatisfy { $0.sessions.allSatisfy { $0.coordinator.storeError == nil } } }

    /// What the file holds now, for certain or not.
    func storedContents() -> StoreContents? { look(seen, disk.version) { disk.content(of: storePath.name) } }

    /// What it would hold after a loss of power now.
    func durableContents() -> StoreContents? {
        look(durable, disk.durableVersion) { disk.durableContent(of: storePath.name) }
    }

    private func look(_ view: FleetStoreView, _ version: UInt64, _ bytes: () -> [UInt8]?) -> StoreContents? {
        let contents = view.contents(version, bytes)
        if view.differs { accuse(.readable, "what was added to the store was not read as the whole file is") }
        return contents
    }

    /// A process has been told that the store has taken `change`.
    func checkStored(_ change: StoreChange, _ stored: StoredUser?, _ user: Int) {
        report.checks += 1
        let name = members[user].name
        let now = durableContents()
        if now?[name] != stored {
            return accuse(
                .persisted, "a \(CrashPoint.Work(change)) of user \(user) was answered, and could still be lost")
        }
        checkOthers(now, except: nil)
        if case .storeIntent = change { checkIntent(user) }
        latest = now
        switch change {
        case .saveSession(_, let login, _) where login.isLink: checkLink(login, user)
        case .saveSession(_, let login, _):
            if login.provider != nil { members[user].loggedInAt = clocks.now }
            // What two processes without locks have sent at once is counted no more; but a token that is stored late
            // may have been sent since.
            let wasSent = login.session.refresh.map { SimulatedToken($0) } == members[user].sent
            if members[user].isExcused, !wasSent { members[user].unknownOutcomes = stored?.intent?.tries ?? 0 }
            // A process without locks may have died with the successor of a token that is stored late.
            let isBehind = login.session.refresh.map { service.isSpent(SimulatedToken($0)) } ?? false
            if clocks.now > members[user].excusedAt + .seconds(60), !isBehind { members[user].isExcused = false }
            members[user].wasDeclaredDead = false
            members[user].wasRefused = false
            members[user].isUnsettled = false
        case .logOut:
            members[user].loggedOutAt = clocks.now
            members[user].isLoggedOut = members[user].wantsOut
        // The end of a deletion that a crash has cut off.
        case .end where stored?.isLoggedOut == true: members[user].loggedOutAt = clocks.now
        default: break
        }
        if members[user].isLoggedOut, now?[name]?.session != nil {
            accuse(.logoutHolds, "user \(user) has logged out, and has a session again by a \(CrashPoint.Work(change))")
        }
    }

    /// A logout has taken what the store `held` of a user.
    func checkEnded(_ held: StoredUser?, _ verdict: StoreChange.Verdict, _ user: Int) {
        report.checks += 1
        if case .overtaken = verdict { return }
        guard let refresh = held?.session?.refresh, service.accepts(SimulatedToken(refresh), at: clocks.now) else {
            return
        }
        // One that was sent without a response, and may have a successor, is not sent again, not even to revoke it.
        if members[user].unknownOutcomes > 0, known(of: SimulatedToken(refresh)) != .none { return }
        let session = SimulatedToken(refresh).session
        let revocations = storedContents()?.revocations ?? []
        guard !revocations.contains(where: { SimulatedToken($0.token).session == session }) else { return }
        accuse(.endedRevoked, "user \(user) has logged out, and the session that the store held lives on")
    }

    /// What one user's write does to all others: nothing.
    private func checkOthers(_ now: StoreContents?, except user: Int?) {
        guard let now, let latest else { return }
        for old in latest.users {
            guard let new = now[old.name] else {
                // A first login that was refused leaves no record.
                let wasIntentAlone =
                    old.intent != nil && old.generation == 0 && !old.hasEverBeenLoggedIn && !old.isLoggedOut
                    && !old.isRefused
                if wasIntentAlone { continue }
                accuse(.lostRotation, "\(old.name) is gone")
                continue
            }
            let isBack =
                new.generation < old.generation
                || new.generation == old.generation && new.session != nil && new.session?.access != old.session?.access
            if isBack {
                accuse(.lostRotation, "\(old.name) falls back from generation \(old.generation) to \(new.generation)")
            }
        }
    }

    /// An intent that is replaced was open for a reason.
    private func checkIntent(_ user: Int) {
        guard let open = latest?[members[user].name]?.intent, open.kind == .refresh else { return }
        guard !members[user].isUnsettled, !members[user].isExcused, isStoreTrusted else { return }
        if open.tries > members[user].unknownOutcomes {
            accuse(
                .openIntent,
                "user \(user) has an open intent of \(open.tries) tries, and \(members[user].unknownOutcomes) are open")
        }
    }
}
