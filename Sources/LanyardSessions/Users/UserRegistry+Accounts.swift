import LanyardFoundations
import LanyardSessionInterface

/// Operators' calls about accounts (app-services-accounts.md 4). Only a user with a session can make them.
extension UserRegistry {
    /// A login, a link or a deletion of this user is in progress. Each of them may replace or end the session.
    func hasChangeUnderWay(_ user: UserIndex) -> Bool {
        logins.values.contains { $0.user == user } || accountChanges.values.contains(user)
    }

    func callAccount(_ user: RegisteredUser, _ callID: UserCallID) throws(UserError) -> [Action] {
        guard !user.isStatic else { throw .notSupported }
        guard user.isAuthenticated else { throw .notLoggedIn }
        return [.callAccount(callID, user.index)]
    }

    mutating func changeAccount(_ user: RegisteredUser, _ callID: UserCallID) throws(UserError) -> [Action] {
        let actions = try callAccount(user, callID)
        guard !hasChangeUnderWay(user.index) else { throw .loginInProgress }
        accountChanges[callID] = user.index
        return actions
    }

    func manageAccount(_ identity: String, _ callID: UserCallID) throws(UserError) -> [Action] {
        guard let isStatic = identities[identity] else { throw .noSuchIdentity }
        guard !isStatic else { throw .notSupported }
        return [.manageAccount(callID, identity: identity)]
    }

    mutating func endAccountChange(_ callID: UserCallID) -> [Action] {
        accountChanges[callID] = nil
        return []
    }

    /// The account is gone. A configured user stays known, logged out as by an operator; any other is forgotten.
    mutating func completeDeletion(_ callID: UserCallID) -> [Action] {
        guard let index = accountChanges.removeValue(forKey: callID) else { return [] }
        // A logout or a removal came first.
        guard let user = self[index] else { return [.respond(callID, .loggedOutBefore(index))] }
        guard user.isConfigured else { return forget(user, callID) }
        guard !user.isLoggedOut else { return [.respond(callID, .loggedOutBefore(index))] }
        return (try? logOut(user, callID)) ?? [.respond(callID, .loggedOutBefore(index))]
    }
}
