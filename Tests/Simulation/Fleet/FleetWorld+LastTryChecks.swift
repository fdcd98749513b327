import LanyardFoundations
import LanyardSessionInterface
import LanyardSessions
import LanyardSettings
import LanyardVault

/// What must hold of refresh tokens that are sent again, or that were sent while the disk was full. The service, and what the tokens
/// themselves say, are the judges.
extension FleetWorld {
    /// A refresh token with an unknown outcome is sent once more.
    func checkLastTry(_ process: FleetProcess, _ user: Int, _ token: SimulatedToken) {
        report.checks += 1
        if !plan.triesLast { accuse(.lastTry, "\(name(process, user)) makes a last try, which is switched off") }
        let stored = storedContents()?[members[user].name]
        // One that works for a single login is tried first, and refused once it has served.
        let isSpent = members[user].isKnownOneUse && (members[user].wasRefused || stored?.refused != nil)
        if members[user].hasCredential, !isSpent {
            accuse(.lastTry, "\(name(process, user)) makes a last try, and has a credential")
        }
        if let tried = members[user].triedLast, tried.session == token.session, tried.value == token.value {
            accuse(.lastTry, "\(name(process, user)) makes a second last try of token \(token.value)")
        }
        members[user].triedLast = token
        if disk.holder(of: storePath.lock(of: members[user].name)) != process.gate.process {
            accuse(.lastTry, "\(name(process, user)) makes a last try without the user's lock")
        }
        if stored?.session?.hasMadeLastTry != true {
            accuse(.lastTry, "\(name(process, user)) makes a last try that the store does not know of")
        }
        if let refresh = stored?.session?.refresh.map({ SimulatedToken($0) }), refresh.session == token.session,
            refresh.value > token.value
        {
            accuse(.lastTry, "\(name(process, user)) makes a last try beside token \(refresh.value) in the store")
        }
        for access in accessTokens(process, user, stored) where access.session == token.session {
            let end = access.madeAt + .nanoseconds(access.value)
            guard clocks.now < end, !isClockExcused(access) else { continue }
            // Only the wall clock tells the age of a token from before the boot. If it is ahead, nothing of the session is served any more.
            if bootedAt > access.madeAt, isWallSetWrong || wallWrongAt > access.madeAt { continue }
            accuse(.lastTry, "\(name(process, user)) makes a last try \(end - clocks.now) before an access token ends")
        }
    }

    /// Those that this process, the other ones, or the store have of the user.
    private func accessTokens(_ process: FleetProcess, _ user: Int, _ stored: StoredUser?) -> [SimulatedToken] {
        let here = open.compactMap { $0.sessions[user].coordinator.session.tokens?.access }
        let tokens = stored?.session?.tokens
        let kept = (tokens.map { [$0.plain] + $0.others.values } ?? []).map(\.token)
        return (here + kept).map { SimulatedToken($0) }
    }

    /// A call with a refresh token that works once begins: the disk may say that another life of a process has sent it.
    func checkMark(_ process: FleetProcess, _ user: Int, _ token: SimulatedToken) {
        guard known(of: token) == .oneUse, isMarked(token) else { return members[user].marked = nil }
        report.checks += 1
        if let marked = members[user].marked, marked.token.session == token.session, marked.token.value == token.value,
            marked.process != process.number || marked.life != process.life
        {
            accuse(.usedMark, "\(name(process, user)) sends token \(token.value), and the disk says that it was sent")
        }
        members[user].marked = (token, process.number, process.life)
    }

    /// The disk says that the token was sent, although the sealed file does not. The process may have died between the mark and the token.
    func isMarked(_ token: SimulatedToken) -> Bool {
        guard let bytes = disk.content(of: storePath.used), let key = storedContents()?.fingerprintKey else {
            return false
        }
        return UsedMarks(bytes).place(of: UsedMarks.hash(of: token.secret, key: key)) != nil
    }
}
