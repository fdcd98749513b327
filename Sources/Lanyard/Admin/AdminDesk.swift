import Logging

/// Carries out admin calls: from a call and its body to an answer, with a line of the audit for each that changes something.
///
/// From any thread; no call blocks.
final class AdminDesk: Sendable {
    /// What the desk has others do.
    struct Sources: Sendable {
        var users: any UserOperations
        var facts: AdminFacts
        /// Begins the orderly end, as SIGTERM does.
        var stop: @Sendable () -> Void
    }

    private let sources: Sources
    private let log: Logger

    init(_ sources: Sources, log: Logger) {
        self.sources = sources
        self.log = log
    }

    /// - Parameter reply: called exactly once, within this call or on whatever queue later.
    func perform(
        _ call: AdminCall, body: UnsafeRawBufferPointer, peer: OperatorPeer,
        reply: @escaping @Sendable (OperatorAnswer) -> Void
    ) {
        do throws(AdminBody.Fault) {
            switch call {
            case .addUser: return add(try AdminBody.addition(body), call, peer, reply)
            case .logIn(let name):
                return ask(.login(name, try AdminBody.credential(body)), name, call, peer, reply)
            default: try AdminBody.nothing(body)
            }
        } catch {
            return finish(.refusing(error), call, call.subject, peer, reply)
        }
        switch call {
        case .status:
            let answer = AdminPages.status(sources.facts, sources.users.report, now: .now)
            finish(answer, call, nil, peer, reply)
        case .users: finish(AdminPages.users(sources.users.report), call, nil, peer, reply)
        case .user(let name):
            let view = sources.users.report.view(of: name)
            finish(view.map { AdminPages.user($0) } ?? .noSuchUser, call, name, peer, reply)
        case .activate(let name): ask(.activate(name), name, call, peer, reply)
        case .refresh(let name): ask(.refresh(name), name, call, peer, reply)
        case .logOut(let name): ask(.logOut(name), name, call, peer, reply)
        case .remove(let name): ask(.remove(name), name, call, peer, reply)
        case .shutdown:
            finish(AdminPages.stopping(), call, nil, peer, reply)
            sources.stop()
        case .addUser, .logIn: break
        }
    }

    /// Answers a call that is not carried out, with the line that every call leaves.
    func refuse(
        _ call: AdminCall, _ answer: OperatorAnswer, peer: OperatorPeer, reply: (OperatorAnswer) -> Void
    ) {
        finish(answer, call, call.subject, peer, reply)
    }

    private func add(
        _ addition: AdminBody.Addition, _ call: AdminCall, _ peer: OperatorPeer,
        _ reply: @escaping @Sendable (OperatorAnswer) -> Void
    ) {
        let request = UserRequest.add(
            name: addition.name, identity: addition.identity, addition.credential)
        ask(request, addition.name, call, peer, reply)
    }

    private func ask(
        _ request: UserRequest, _ name: String, _ call: AdminCall, _ peer: OperatorPeer,
        _ reply: @escaping @Sendable (OperatorAnswer) -> Void
    ) {
        sources.users.perform(request) { [self] result in
            finish(Self.answer(result, name), call, Self.subject(of: result) ?? name, peer, reply)
        }
    }

    /// Whom the answer tells of: a login may end in the account of another user than it named, and that name is then nobody's.
    private static func subject(of result: Result<UserOutcome, UserFault>) -> String? {
        switch result {
        case .success(.added(let view, _)), .success(.user(let view, _)): view.status.user
        default: nil
        }
    }

    private static func answer(_ result: Result<UserOutcome, UserFault>, _ name: String) -> OperatorAnswer {
        switch result {
        case .success(.added(let view, let isStored)): AdminPages.added(view, isStored: isStored)
        case .success(.user(let view, let isStored)): AdminPages.user(view, isStored: isStored)
        case .success(.refreshed(let expiry)): AdminPages.refreshed(expiry)
        case .success(.loggedOut(let view, let isRevoked, let isStored)):
            AdminPages.loggedOut(view, name: name, isRevoked: isRevoked, isStored: isStored)
        case .success(.removed(isStored: true)): OperatorAnswer(status: 204, body: [])
        case .success(.removed(isStored: false)): AdminPages.removed(name)
        case .failure(let fault): .refusing(fault, user: name)
        }
    }

    /// The audit first: whoever has the answer finds the line.
    private func finish(
        _ answer: OperatorAnswer, _ call: AdminCall, _ user: String?, _ peer: OperatorPeer,
        _ reply: (OperatorAnswer) -> Void
    ) {
        if call.changes { audit(call, user, answer.problemName ?? "ok", peer) }
        reply(answer)
    }

    private func audit(_ call: AdminCall, _ user: String?, _ result: String, _ peer: OperatorPeer) {
        var metadata: Logger.Metadata = [
            "event": "admin.call", "call": .string(call.word), "result": .string(result),
        ]
        if let uid = peer.uid { metadata["uid"] = .stringConvertible(uid) }
        if let pid = peer.pid { metadata["pid"] = .stringConvertible(pid) }
        if let user { metadata["user"] = .string(user) }
        log.notice("admin call", metadata: metadata)
    }
}
