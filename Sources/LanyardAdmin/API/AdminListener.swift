import Dispatch
import Glibc
import LanyardFoundations
import LanyardRequestPath
import LanyardSessions
import LanyardSettings
import Logging

/// Serves the admin API on a unix socket, or over TCP with a token. It has its own connection limit.
///
/// Its mutable state belongs to the queue of the loop. Health shares that queue, so nothing here blocks.
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
    /// Running calls that wait for an identity service or for files. A call counts until it ends, even if its client has gone.
    private var waitingCalls: WaitingCalls
    private var tokenWatch: FileWatch?
    /// Reads the token's file and no other, so that no other hanging file delays it.
    private let files: FileReader

    /// No thread and no event before `start`.
    ///
    /// - Parameters:
    ///   - loop: the caller starts and stops it.
    ///   - tokenFile: the token for calls over TCP; read again when it changes. While it cannot be read or holds fewer bytes than allowed,
    ///     every call over TCP is refused.
    ///   - files: reads `tokenFile` alone; `stop` ends it.
    ///   - refused: counts refused calls.
    ///   - info: the process's part of the status response.
    ///   - exposesTokens: `admin.expose_tokens`.
    ///   - browserLogins: where a user of an identity logs in in a browser; nil: there is no such user.
    ///   - control: operations on the process itself.
    package init(
        _ socket: ListeningSocket, loop: EventLoop, tokenFile: String?, by files: FileReader = FileReader(),
        users: any UserOperations, info: ProgramInfo, exposesTokens: Bool = false,
        refused: AdminRefusalCounters = AdminRefusalCounters(),
        browserLogins: @escaping @Sendable (_ user: String, _ identity: String?) -> BrowserLoginTarget? = { _, _ in nil
        },
        control: ProcessControl, limits: AdminLimits = AdminLimits(), log: Logger
    ) {
        self.limits = limits
        waitingCalls = WaitingCalls(max: limits.waitingCallsMax)
        self.log = log
        self.files = files
        refusals = AdminRefusalLog(refused, on: loop, log: log)
        let sources = AdminHandler.Sources(
            users: users, info: info, exposesTokens: exposesTokens, control: control, browserLogins: browserLogins)
        handler = AdminHandler(sources, log: log)
        hosts = AllowedHosts(socket.port.map { [socket.address.authority, "localhost:\($0)"] })
        let profile = OperatorListener.Profile(
            name: "admin", client: "an admin client", acceptsPerTurn: 8, reserveCount: 4)
        listener = OperatorListener(socket, loop: loop, limits: limits.connections, profile: profile, log: log)
        if listener.isTCP, let tokenFile {
            tokenWatch = FileWatch(tokenFile, by: files, on: loop) { [weak self] in self?.updateToken($0, tokenFile) }
        }
    }

    /// The bound address.
    package var address: ListenerSettings.Address { listener.address }

    /// Starts to accept connections. Once. From any thread.
    package func start() {
        tokenWatch?.start()
        listener.loop.post { [self] in listener.start(for: self) }
    }

    /// Closes the listener and every connection. Blocks until that is done, so that the socket's path is removed before the process exits.
    /// Not from the loop's queue.
    package func stop() {
        tokenWatch?.stop()
        files.stop()
        listener.loop.queue.sync {
            listener.stop()
            refusals.stop()
        }
    }

    /// A token that cannot be used or read disables calls over TCP. The previous token is not kept, because the operator may have
    /// replaced it after a leak.
    private func updateToken(_ outcome: FileWatch.Outcome, _ path: String) {
        listener.loop.assertIsCurrent()
        switch outcome {
        case .success(let content):
            let secret = SecretText.token(in: content.secret)
            if let error = FieldSecret.error(of: secret) { return clearToken(error, path) }
            token = secret
        case .failure(let error): clearToken(error, path)
        }
    }

    private func clearToken(_ error: SecretFile.ReadError, _ path: String) {
        token = nil
        log.error(
            "the admin token cannot be used: every call over TCP is refused",
            metadata: ["event": "admin.token.failed", "reason": .string(error.message(path: path))])
    }

    // MARK: Decisions

    /// Checks the caller first, then the call.
    func decide(
        _ head: RequestHead, _ target: OperatorTarget, in bytes: Bytes, _ table: FieldTable, peer: PeerCredentials
    ) -> OperatorDecision {
        listener.loop.assertIsCurrent()
        let policy = AdminAccessPolicy(hosts: hosts, token: token, isTCP: listener.isTCP, ownUID: ownUID)
        if let refusal = policy.decide(head, target, in: bytes, table, peer: peer) {
            refusals.record(refusal, peer)
            guard refusal.problemName == OperatorResponse.tokenRequired.problemName,
                policy.carriesAuthorization(in: bytes, table)
            else {
                return .response(refusal)
            }
            return .delayed(refusal, guessDelay.delay(at: listener.loop.now))
        }
        switch AdminCall.read(head.kind, target.path, query: target.query) {
        case .call(let call): return .call(operatorCall(of: call, peer))
        case .queryNotTaken: return .response(.queryNotTaken)
        case .accountQueryInvalid: return .response(.accountQueryInvalid)
        case .methodNotAllowed(let allow): return .response(.methodNotAllowed(allow: allow))
        case .unreadable(.noSuchUser): return .response(.noSuchUser)
        case .unreadable(.noSuchIdentity): return .response(.noSuchIdentity)
        case .unreadable(.invalid(let message)): return .response(.problem(.invalid(message)))
        case .unreadable(.noRoute): return .response(.noRoute)
        }
    }

    private func operatorCall(of call: AdminCall, _ peer: PeerCredentials) -> OperatorCall {
        let bytesMax = call.isFunction ? limits.functionBodyBytesMax : limits.bodyBytesMax
        return OperatorCall(bodyBytesMax: bytesMax, bodyTimeout: limits.bodyTimeout) { [self] body, reply in
            guard call.waitsForOthers else {
                return handler.perform(call, body: body, peer: peer, reply: reply)
            }
            let identity = handler.identity(of: call)
            guard waitingCalls.begin(of: identity) else {
                return handler.reject(call, .overloaded, peer: peer, reply: reply)
            }
            handler.perform(call, body: body, peer: peer) { [self] response in
                // Before the response: a client that has it can make the next call at once.
                listener.loop.post { [self] in waitingCalls.end(of: identity) }
                reply(response)
            }
        }
    }
}
