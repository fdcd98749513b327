import Dispatch
import Glibc
import Logging

/// Answers the admin API: on a unix socket, or over TCP with a token, with a connection budget of its own.
///
/// Its mutable state belongs to the queue of the loop, which it shares with health: nothing here waits.
package final class AdminListener: OperatorHandler, @unchecked Sendable {
    private let handler: AdminHandler
    private let hosts: AllowedHosts
    private let ownUID = geteuid()
    private let limits: AdminLimits
    private let listener: OperatorListener
    private let log: Logger
    private let refusals: AdminRefusalLog
    private var guessDelay = TokenGuessDelay()
    private var token: Secret?
    /// Calls under way that wait for an identity service, whether or not their clients still do.
    private var waitingCalls = 0
    private var tokenWatch: FileWatch?

    /// No thread and no event before `start`.
    ///
    /// - Parameters:
    ///   - loop: started and stopped by somebody else.
    ///   - tokenFile: what calls over TCP must carry; read again when it changes. While it cannot be read, or is too short, nobody may call.
    ///   - files: reads it.
    ///   - refused: counts the calls that are not let in.
    ///   - facts: what status tells of the process.
    ///   - stop: begins the orderly end, as SIGTERM does.
    package init(
        _ socket: ListeningSocket, loop: EventLoop, tokenFile: String?, by files: FileReader = FileReader(),
        users: any UserOperations, facts: ProgramInfo, refused: AdminRefusalCounters = AdminRefusalCounters(),
        stop: @escaping @Sendable () -> Void, limits: AdminLimits = AdminLimits(), log: Logger
    ) {
        self.limits = limits
        self.log = log
        refusals = AdminRefusalLog(refused, on: loop, log: log)
        handler = AdminHandler(AdminHandler.Sources(users: users, facts: facts, stop: stop), log: log)
        hosts = AllowedHosts(socket.port.map { ["\(socket.address)", "localhost:\($0)"] })
        let profile = OperatorListener.Profile(
            name: "admin", client: "an admin client", acceptsPerTurn: 8, reserveCount: 0)
        listener = OperatorListener(socket, loop: loop, limits: limits, profile: profile, log: log)
        if listener.isTCP, let tokenFile {
            tokenWatch = FileWatch(tokenFile, by: files, on: loop) { [weak self] in self?.updateToken($0, tokenFile) }
        }
    }

    /// What was bound.
    package var address: ListenerSettings.Address { listener.address }

    /// Begins to accept. Once.
    package func start() {
        tokenWatch?.start()
        listener.loop.post { [self] in listener.start(for: self) }
    }

    /// Closes the listener and every connection. Waits for it, from elsewhere than the loop, so that the socket's path is gone before the
    /// process is.
    package func stop() {
        tokenWatch?.stop()
        listener.loop.queue.sync {
            listener.stop()
            refusals.stop()
        }
    }

    /// A token that is too short shuts the API as one that cannot be read does. The previous one does not go on: who replaces a token may
    /// have lost the old one to somebody.
    private func updateToken(_ outcome: FileWatch.Outcome, _ path: String) {
        switch outcome {
        case .success(let content) where content.secret.count >= AdminSettings.tokenLengthMin: token = content.secret
        case .success: clearToken(AdminSettings.shortTokenError, path)
        case .failure(let problem): clearToken(problem, path)
        }
    }

    private func clearToken(_ problem: SecretFile.ReadError, _ path: String) {
        token = nil
        log.error(
            "the admin token cannot be used: no call over TCP is answered",
            metadata: ["event": "admin.token.failed", "reason": .string(problem.message(path: path))])
    }

    // MARK: Judging

    /// Who calls, then what is called.
    func decide(
        _ head: RequestHead, _ target: OperatorTarget, in bytes: Bytes, _ table: FieldTable, peer: PeerCredentials
    ) -> OperatorDecision {
        let gate = AdminAccessPolicy(hosts: hosts, token: token, isTCP: listener.isTCP, ownUID: ownUID)
        if let refusal = gate.decide(head, target, in: bytes, table, peer: peer) {
            refusals.record(refusal, peer)
            guard refusal.problemName == OperatorResponse.tokenRequired.problemName,
                gate.carriesAuthorization(in: bytes, table)
            else {
                return .response(refusal)
            }
            return .delayed(refusal, guessDelay.delay(at: listener.loop.now))
        }
        switch AdminCall.read(head.kind, target.path) {
        case .call where target.hasQuery: return .response(.queryNotTaken)
        case .call(let call): return .call(operatorCall(of: call, peer))
        case .methodNotAllowed(let allow): return .response(.methodNotAllowed(allow: allow))
        case .noSuchUser: return .response(.noSuchUser)
        case .noRoute: return .response(.noRoute)
        }
    }

    private func operatorCall(of call: AdminCall, _ peer: PeerCredentials) -> OperatorCall {
        OperatorCall(bodyBytesMax: limits.bodyBytesMax, bodyTimeout: limits.bodyTimeout) { [self] body, reply in
            guard call.waitsForIdentityService else {
                return handler.perform(call, body: body, peer: peer, reply: reply)
            }
            guard waitingCalls < limits.waitingCallsMax else {
                return handler.reject(call, .overloaded, peer: peer, reply: reply)
            }
            waitingCalls += 1
            handler.perform(call, body: body, peer: peer) { [self] response in
                // Before the answer: whoever has it finds the place free.
                listener.loop.post { [self] in waitingCalls -= 1 }
                reply(response)
            }
        }
    }
}
