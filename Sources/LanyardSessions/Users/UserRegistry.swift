import LanyardFoundations
import LanyardSessionInterface
import LanyardSettings

/// Decides which users are known and which is active (architecture-control.md 5.6, 5.7 about several users). It takes an event
/// and returns actions, in order; `UserService` performs them. It does no I/O and sees no secret.
package struct UserRegistry: Sendable {
    /// Names one call of an operator until it has a response.
    package struct UserCallID: Hashable, Sendable {
        /// Unique in this process.
        package let number: UInt64
        package init(_ number: UInt64) { self.number = number }
    }

    /// What has happened.
    package enum Event: Sendable {
        case called(UserCall, UserCallID)
        /// The login of the call has succeeded.
        case loggedIn(UserCallID)
        /// The login succeeded in the account of this user, which has no session. The session becomes that user's.
        case belongs(UserCallID, to: String)
        case failed(UserCallID, UserError)
        /// Another process has added a user of the requested name. That user is known here from now on.
        case nameExists(UserCallID)
        /// Something else happened first, such as a logout.
        case overtaken(UserCallID)
        /// The link or the deletion of the call has ended, without a change of the user.
        case accountChangeEnded(UserCallID)
        /// The service has deleted the account.
        case accountDeleted(UserCallID)
        /// The store was read for a second logout of the user.
        ///
        /// - hasSession: another process has logged the user in since.
        case storeRead(UserCallID, UserIndex, hasSession: Bool)
        /// The state of a user's session has changed.
        case changed(UserIndex, SessionSnapshot)
        /// A forgotten user is gone completely: its name is free again.
        case removalCompleted(UserIndex)
    }

    /// What a session reports after each change.
    package struct SessionSnapshot: Equatable, Sendable {
        /// The state of the session.
        package var state: SessionState
        /// A login is in progress, whatever its cause.
        package var isLoggingIn: Bool
        package var accountID: String?
        /// The kind of the latest login.
        package var provider: String?

        package init(state: SessionState, isLoggingIn: Bool = false, accountID: String?, provider: String?) {
            self.state = state
            self.isLoggingIn = isLoggingIn
            self.accountID = accountID
            self.provider = provider
        }
    }

    /// What to do.
    package enum Action: Equatable, Sendable {
        /// A new user, not shown before its login has succeeded.
        case admit(RegisteredUser)
        /// Log in with the call's credential, otherwise with the configured one; then `loggedIn`, `belongs`,
        /// `failed` or `overtaken`.
        case logIn(UserCallID, UserIndex)
        /// Give the session that the call's login obtained to this user; then `loggedIn`, `failed` or `overtaken`.
        case adopt(UserCallID, UserIndex)
        /// Routes without a user of their own follow this one from now on, and after a restart.
        case activate(StoreContents.ActiveChoice, UserIndex?)
        /// The same without a new choice: a user has come that is active by the configuration or by the latest choice.
        case follow(UserIndex?)
        case refresh(UserCallID, UserIndex)
        /// Make the operator's call about the user's account; a link or a deletion then ends with `accountChangeEnded`
        /// or `accountDeleted`.
        case callAccount(UserCallID, UserIndex)
        /// Make the operator's call at this identity.
        case manageAccount(UserCallID, identity: String)
        /// End the session: erase the tokens, tell the service, send the response.
        case logOut(UserCallID, UserIndex)
        /// Read what the store holds of a user that is logged out here; then `storeRead`.
        case readStored(UserCallID, UserIndex)
        /// End the session, and the user is not shown any more.
        case hide(UserCallID, UserIndex)
        /// The same, and the user is forgotten; then `removalCompleted`.
        case forget(UserCallID?, UserIndex)
        /// Remove an unknown user from the store, tell the service, send the response.
        case removeStored(UserCallID, String)
        /// Remove a user whose login never succeeded; then `removalCompleted`.
        case drop(UserIndex)
        case respond(UserCallID, Response)
    }

    /// What an operator is told.
    package enum Response: Equatable, Sendable {
        case added(UserIndex)
        case user(UserIndex)
        case loggedOutBefore(UserIndex)
        case error(UserError)
    }

    /// A login that an operator asked for.
    struct Login: Sendable {
        /// The name in the call.
        let name: String
        let provider: String
        /// Whether the call adds a user of that name.
        let isNew: Bool
        /// The user that logs in, or the owner of the account if that is another user.
        var user: UserIndex
        /// Whether the login makes its user active.
        let activates: Bool
    }

    /// All users, each in one `RegisteredUser.Standing`: in the order of the configuration, then in the order in which
    /// they were added.
    var members: RegisteredUsers
    /// The user that routes without a user of their own follow.
    package internal(set) var active: UserIndex?
    /// The names of the identities, and whether each is static.
    var identities: [String: Bool]
    /// `active_user`, as configured.
    var configuredActive: String?
    var activatesNext: Bool
    /// The latest choice of an active user, as the store has it; nil: never chosen.
    var remembered: StoreContents.ActiveChoice?
    let names: UserNames
    var logins: [UserCallID: Login] = [:]
    /// The users whose account is being linked or deleted.
    var accountChanges: [UserCallID: UserIndex] = [:]
    /// The names of users that were in the store and not known. One of them may be known again by now.
    private var formerlyStored: Set<String> = []
    /// The unknown users that are being removed from the store.
    var storedRemovals: [UserCallID: String] = [:]
    /// Users whose stored session belongs to an account that another user keeps, each with that user's name.
    var duplicateAccounts: [UserIndex: String] = [:]

    /// - Parameters:
    ///   - users: in their order; each with what the store held of it.
    ///   - identities: the names, and whether each is static.
    ///   - configuredActive: `active_user`; nil: not configured, so it is the first configured user.
    ///   - remembered: what the store held. It applies until `active_user` changes.
    ///   - activatesNext: `on_active_logout: next`.
    ///   - names: assigns an index to each name.
    package init(
        _ users: [RegisteredUser], identities: [String: Bool], configuredActive: String?,
        remembered: StoreContents.ActiveChoice?, activatesNext: Bool, names: UserNames
    ) {
        members = RegisteredUsers(users)
        self.identities = identities
        self.configuredActive = configuredActive
        self.activatesNext = activatesNext
        self.remembered = remembered
        self.names = names
        active = chosenUser
    }

    /// The users that are known or about to be.
    package var users: [RegisteredUser] { members.all.filter(\.isNamed) }

    /// The configured anonymous users that an operator has logged out.
    var hidden: [RegisteredUser] { members.all.filter { $0.standing == .hidden } }

    /// The names of stored users that are not known. No member is among them, so that no name has two users.
    var unknownStoredUsers: Set<String> { formerlyStored.subtracting(members.all.map(\.name)) }

    private func isUnknownStoredUser(_ name: String) -> Bool {
        formerlyStored.contains(name) && !members.contains(named: name)
    }

    /// The store has a user of each of these names.
    mutating func noteStored(_ names: Set<String>) { formerlyStored.formUnion(names) }

    /// The store has no user of this name any more.
    mutating func forgetStored(_ name: String) { formerlyStored.remove(name) }

    /// The active user by the configuration and the latest choice. A provisional user is not known to requests yet.
    var chosenUser: UserIndex? {
        guard let remembered, remembered.configured == configuredActive else { return standardUser }
        // The remembered user may be unknown now, because the configuration has changed.
        return remembered.user.map { known(named: $0) ?? standardUser } ?? nil
    }

    /// The active user if none was ever chosen.
    private var standardUser: UserIndex? {
        if let configuredActive { return known(named: configuredActive) }
        return members.all.first { $0.standing == .known && $0.isConfigured }?.index
    }

    private func known(named name: String) -> UserIndex? {
        members[name].flatMap { $0.standing == .known ? $0.index : nil }
    }

    /// The user of that name, provisional users included.
    subscript(name: String) -> RegisteredUser? { members[name].flatMap { $0.isNamed ? $0 : nil } }

    subscript(index: UserIndex) -> RegisteredUser? {
        get { members[index].flatMap { $0.isNamed ? $0 : nil } }
        set {
            guard let newValue, self[index] != nil else { return }
            members[index] = newValue
        }
    }

    /// The configured anonymous user of that name that an operator has logged out.
    func hidden(named name: String) -> RegisteredUser? { members[name].flatMap { $0.standing == .hidden ? $0 : nil } }

    /// The same at this index.
    func hidden(at index: UserIndex) -> RegisteredUser? { members[index].flatMap { $0.standing == .hidden ? $0 : nil } }

    /// The user is forgotten, but its runner still has work.
    func isBeingRemoved(_ user: UserIndex) -> Bool { members[user]?.standing == .leaving }

    /// Moves a user to another state.
    mutating func move(_ user: RegisteredUser, to standing: RegisteredUser.Standing) {
        var user = user
        user.standing = standing
        members[user.index] = user
    }

    /// The users that are shown, in their order.
    package var shown: [UserIndex] { members.all.filter { $0.standing == .known }.map(\.index) }

    /// Differs after each change of `shown`.
    var shownRevision: Int { members.changes }

    /// Handles one event and returns the actions to perform, in order.
    package mutating func handle(_ event: Event) -> [Action] { withChosenUser(decide(event)) }

    /// The active user is the one that a restart would choose: a user that has come may be it.
    private mutating func withChosenUser(_ actions: [Action]) -> [Action] {
        guard active != chosenUser else { return actions }
        active = chosenUser
        return [.follow(active)] + actions
    }

    private mutating func decide(_ event: Event) -> [Action] {
        switch event {
        case .called(let call, let callID): respond(call, callID)
        case .loggedIn(let callID): completeLogin(callID)
        case .belongs(let callID, let name): transferLogin(callID, to: name)
        case .failed(let callID, let error): failLogin(callID, error)
        case .nameExists(let callID): confirmProvisional(callID)
        case .overtaken(let callID): failLogin(callID, nil)
        case .accountChangeEnded(let callID): endAccountChange(callID)
        case .accountDeleted(let callID): completeDeletion(callID)
        case .storeRead(let callID, let user, let hasSession): logOutAgain(user, callID, hasSession: hasSession)
        case .changed(let user, let snapshot): handleSessionChange(user, snapshot)
        case .removalCompleted(let user): releaseIndex(user)
        }
    }

    private mutating func releaseIndex(_ user: UserIndex) -> [Action] {
        if isBeingRemoved(user) { members.remove(user) }
        names.release(user)
        return []
    }

    private mutating func respond(_ call: UserCall, _ callID: UserCallID) -> [Action] {
        do throws(UserError) {
            switch call {
            case .add(let name, let identity, let credential, let activates):
                return try add(name, identity, credential.provider, activates: activates, callID)
            case .login(let name, let credential, let activates):
                return try logIn(name, credential?.provider, activates: activates, callID)
            case .activate(let name): return try activate(try known(name), callID)
            case .refresh(let name): return try refresh(try known(name), callID)
            case .logOut(let name): return try logOut(try known(name), callID)
            case .remove(let name):
                if isUnknownStoredUser(name) {
                    storedRemovals[callID] = name
                    return [.removeStored(callID, name)]
                }
                return forget(try known(name), callID)
            case .call(let name, _), .customData(let name): return try callAccount(try known(name), callID)
            // Of each user, whatever its state and identity: the session says whether there is a token.
            case .accessToken(let name, _): return [.callAccount(callID, try known(name).index)]
            case .link(let name, _), .deleteAccount(let name):
                return try changeAccount(try known(name), callID)
            case .manageAccount(let identity, _): return try manageAccount(identity, callID)
            }
        } catch {
            return [.respond(callID, .error(error))]
        }
    }

    /// Provisional users do not count.
    private func known(_ name: String) throws(UserError) -> RegisteredUser {
        guard let user = self[name], !user.isProvisional else { throw .noSuchUser }
        return user
    }

    // MARK: The active user

    private mutating func activate(
        _ user: RegisteredUser, _ callID: UserCallID
    ) throws(UserError) -> [Action] {
        guard user.isAuthenticated else { throw .notLoggedIn }
        return makeActive(user.index) + [.respond(callID, .user(user.index))]
    }

    mutating func makeActive(_ user: UserIndex?) -> [Action] {
        guard active != user else { return [] }
        active = user
        let name = user.flatMap { self[$0]?.name }
        let choice = StoreContents.ActiveChoice(user: name, configured: configuredActive)
        remembered = choice
        return [.activate(choice, user)]
    }

    /// A user that leaves is not active any more. The configuration decides which user is active next.
    private mutating func deactivate(_ user: UserIndex) -> [Action] {
        guard active == user else { return [] }
        let next = members.all.lazy.filter(\.isNamed).first { $0.isAuthenticated && $0.index != user }
        return makeActive(activatesNext ? next?.index : nil)
    }

    private func refresh(_ user: RegisteredUser, _ callID: UserCallID) throws(UserError) -> [Action] {
        guard !user.isStatic else { throw .notSupported }
        guard user.isAuthenticated else { throw .notLoggedIn }
        return [.refresh(callID, user.index)]
    }

    // MARK: Logout and removal

    mutating func logOut(_ user: RegisteredUser, _ callID: UserCallID) throws(UserError) -> [Action] {
        guard !user.isStatic else { throw .notSupported }
        // A second logout changes nothing (app-services.md 7.1). But another process may have logged the user in since.
        guard !user.isLoggedOut else { return [.readStored(callID, user.index)] }
        return endSession(of: user, callID)
    }

    private mutating func logOutAgain(
        _ index: UserIndex, _ callID: UserCallID, hasSession: Bool
    ) -> [Action] {
        guard hasSession, let user = self[index] else { return [.respond(callID, .loggedOutBefore(index))] }
        return endSession(of: user, callID)
    }

    private mutating func endSession(of user: RegisteredUser, _ callID: UserCallID) -> [Action] {
        if user.isAnonymous { return user.isConfigured ? hide(user, callID) : forget(user, callID) }
        let actions = deactivate(user.index)
        self[user.index]?.loginState = .loggedOut
        return actions + [.logOut(callID, user.index)]
    }

    private mutating func hide(_ user: RegisteredUser, _ callID: UserCallID) -> [Action] {
        let actions = deactivate(user.index)
        move(user, to: .hidden)
        return actions + [.hide(callID, user.index)]
    }

    mutating func forget(_ user: RegisteredUser, _ callID: UserCallID?) -> [Action] {
        let actions = deactivate(user.index)
        move(user, to: .leaving)
        return actions + [.forget(callID, user.index)]
    }
}
