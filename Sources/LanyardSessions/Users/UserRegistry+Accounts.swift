import LanyardFoundations
import LanyardSessionInterface

/// Operators' requests about accounts (app-services.md 4). Only a user with a session can make them.
extension UserRegistry {
    /// A login, a link or a deletion of this user is under way. Each of them may replace or end the session.
    func hasChangeUnderWay(_ user: UserIndex) -> Bool {
        logins.values.contains { $0.user == user } || accountChanges.values.contains(user)
    }

    func callAccount(_ user: RegisteredUser, _ requestID: OperatorRequestID) throws(UserError) -> [Action] {
        guard !user.isStatic else { throw .notSupported }
        guard user.isAuthenticated else { throw .notLoggedIn }
        return [.callAccount(requestID, user.index)]
    }

    /// The token of a static identity is in its file, so showing it reveals nothing new.
    func showToken(_ user: RegisteredUser, _ requestID: OperatorRequestID) throws(UserError) -> [Action] {
        guard user.isAuthenticated else { throw .notLoggedIn }
        return [.callAccount(requestID, user.index)]
    }

    mutating func changeAccount(_ user: RegisteredUser, _ requestID: OperatorRequestID) throws(UserError) -> [Action] {
        let actions = try callAccount(user, requestID)
        guard !hasChangeUnderWay(user.index) else { throw .loginInProgress }
        accountChanges[requestID] = user.index
        return actions
    }

    func manageAccount(_ identity: String, _ requestID: OperatorRequestID) throws(UserError) -> [Action] {
        guard let isStatic = identities[identity] else { throw .noSuchIdentity }
        guard !isStatic else { throw .notSupported }
        return [.manageAccount(requestID, identity: identity)]
    }

    mutating func endAccountChange(_ requestID: OperatorRequestID) -> [Action] {
        accountChanges[requestID] = nil
        return []
    }

    /// The account is gone. A configured user stays known, logged out as by an operator; any other is forgotten.
    mutating func completeDeletion(_ requestID: OperatorRequestID) -> [Action] {
        guard let index = accountChanges.removeValue(forKey: requestID) else { return [] }
        // A logout or a removal came first.
        guard let user = self[index] else { return [.respond(requestID, .loggedOutBefore(index))] }
        guard user.isConfigured else { return forget(user, requestID) }
        guard !user.isLoggedOut else { return [.respond(requestID, .loggedOutBefore(index))] }
        return (try? logOut(user, requestID)) ?? [.respond(requestID, .loggedOutBefore(index))]
    }
}
