/// The replies that operators wait for, from one user's runner. Each is sent once.
struct OperatorReplies {
    /// By the ticket that the coordinator has for an operator's login, deletion or logout.
    private var byTicket: [UInt64: SessionRunner.Reply] = [:]
    private var tickets: UInt64 = 0
    /// Those that wait for a new access token: one result is for all.
    private var ofRefresh: [SessionRunner.Reply] = []

    /// Returns the ticket.
    mutating func add(_ reply: @escaping SessionRunner.Reply) -> UInt64 {
        tickets += 1
        byTicket[tickets] = reply
        return tickets
    }

    mutating func addRefresh(_ reply: @escaping SessionRunner.Reply) { ofRefresh.append(reply) }

    mutating func take(_ ticket: UInt64) -> SessionRunner.Reply? { byTicket.removeValue(forKey: ticket) }

    /// The replies that an action of the coordinator names, with the result.
    mutating func take(
        for action: SessionCoordinator.Action
    ) -> [(reply: SessionRunner.Reply, result: SessionReply)] {
        switch action {
        case .reply(let ticket, let result): return take(ticket).map { [($0, result)] } ?? []
        case .refreshEnded(let result):
            defer { ofRefresh = [] }
            return ofRefresh.map { ($0, result) }
        case .tryLock, .unlock, .begin, .read, .commit, .login, .refresh, .claim, .revoke, .completeTermination,
            .publish, .publishVariant, .countUses, .logEvent:
            return []
        }
    }

    mutating func takeAll() -> [SessionRunner.Reply] {
        defer { (byTicket, ofRefresh) = ([:], []) }
        return Array(byTicket.values) + ofRefresh
    }
}
