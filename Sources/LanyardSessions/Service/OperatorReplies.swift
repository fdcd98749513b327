/// The replies that operators wait for, from one user's coordinator. Each is sent once.
///
/// The coordinator knows no replies. It has at most one login and one deletion that an operator waits for, and all who
/// wait for a new access token get one result. Several terminations can be open at once: each has an id.
package struct OperatorReplies<Reply> {
    private var ofLogin: Reply?
    private var ofDeletion: Reply?
    /// Those that wait for a new access token.
    private var ofRefresh: [Reply] = []
    /// By the id of the termination.
    private var ofTerminations: [UInt64: Reply] = [:]
    /// The reply to the call that the coordinator has refused in the present event.
    private var refused: Reply?

    package init() {}

    /// The coordinator has handled an operator's call, with these actions. `take` for each of them follows.
    package mutating func add(
        _ reply: Reply, to call: SessionCoordinator.OperatorCall, handledBy actions: [SessionCoordinator.Action]
    ) {
        let isRefused = actions.contains { if case .refuseCall = $0 { true } else { false } }
        guard !isRefused else { return refused = reply }
        switch call {
        case .login: ofLogin = reply
        case .deletion: ofDeletion = reply
        case .refresh: ofRefresh.append(reply)
        case .termination(let id): ofTerminations[id] = reply
        }
    }

    /// The reply to a termination.
    package mutating func take(termination id: UInt64) -> Reply? { ofTerminations.removeValue(forKey: id) }

    /// The replies that an action of the coordinator is for, with the result.
    package mutating func take(for action: SessionCoordinator.Action) -> [(reply: Reply, result: SessionReply)] {
        switch action {
        case .refuseCall(let result):
            defer { refused = nil }
            return refused.map { [($0, result)] } ?? []
        case .loginEnded(let result):
            defer { ofLogin = nil }
            return ofLogin.map { [($0, result)] } ?? []
        case .deletionPrepared(let result):
            defer { ofDeletion = nil }
            return ofDeletion.map { [($0, result)] } ?? []
        case .refreshEnded(let result):
            defer { ofRefresh = [] }
            return ofRefresh.map { ($0, result) }
        case .tryLock, .unlock, .begin, .read, .commit, .login, .refresh, .prepareRefresh, .sendRefresh, .cancelRefresh,
            .secondCall, .claim, .revoke, .completeTermination, .publish, .publishVariant, .publishAccount, .countUses,
            .logEvent:
            return []
        }
    }

    package mutating func takeAll() -> [Reply] {
        defer { self = OperatorReplies() }
        return [ofLogin, ofDeletion, refused].compactMap(\.self) + ofRefresh + ofTerminations.values
    }
}
