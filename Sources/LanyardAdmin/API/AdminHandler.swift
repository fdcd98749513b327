import Dispatch
import LanyardFoundations
import LanyardSessionInterface
import LanyardSessions
import LanyardSettings
import LanyardTelemetry
import Logging

/// Performs admin calls: takes a call with its body and gives a response. Writes an audit line for each call that changes state
/// or shows a token.
///
/// From any thread; no call blocks.
final class AdminHandler: Sendable {
    /// The sources of a call's data, and the operations that it starts.
    struct Sources: Sendable {
        var users: any UserOperations
        var info: ProgramInfo
        /// `admin.expose_tokens`.
        var exposesTokens: Bool
        var control: ProcessControl
        /// Where users log in in a browser.
        var browserLogins: @Sendable (_ user: String, _ identity: String?) -> BrowserLoginTarget? = { _, _ in nil }
    }

    private let sources: Sources
    /// Makes the pages about all users. With many users they take long, and probes share the listener's loop.
    private let pages = DispatchQueue(label: "lanyard.admin.pages")
    /// Writes whatever the level of the log is, which a call can set.
    private let auditLog: Logger
    private let log: Logger
    private let browserLogins: BrowserLoginRegistry

    init(_ sources: Sources, log: Logger) {
        self.sources = sources
        browserLogins = BrowserLoginRegistry(sources.browserLogins, users: sources.users, log: log)
        auditLog = log.forAudit
        self.log = log
    }

    /// - Parameter reply: called exactly once, during this call or later on any queue.
    func perform(
        _ call: AdminCall, body: UnsafeRawBufferPointer, peer: PeerCredentials,
        reply: @escaping @Sendable (OperatorResponse) -> Void
    ) {
        do throws(AdminBody.ReadError) {
            switch call {
            case .addUser:
                let new = try AdminBody.newUser(body)
                guard !new.credential.kind.isInteractive else {
                    throw .invalid(
                        "credential.\(new.credential.provider) needs a user that exists; add the user to the configuration"
                    )
                }
                return add(new, call, peer, reply)
            case .setLogLevel:
                sources.control.verbosity.set(try AdminBody.logLevel(body))
                let level = sources.control.verbosity.level
                auditLog.notice("the log level was changed", metadata: ["event": "log.level", "verbosity": "\(level)"])
                return finish(AdminResponses.logLevel(sources.control.verbosity), call, nil, peer, reply)
            case .logIn(let name):
                let login = try AdminBody.login(body)
                switch browserLoginKind(login, name) {
                case .device?:
                    return begin(.device, login, name, call, peer, reply)
                case .authorizationCode?:
                    guard let uri = login.redirectURI else {
                        return finish(.redirectNeeded(user: name), call, name, peer, reply)
                    }
                    return begin(.authorizationCode(redirectURI: uri), login, name, call, peer, reply)
                default: break
                }
                let userCall = UserCall.login(name, login.credential, activates: login.activates)
                return performUserCall(userCall, name, call, peer, reply)
            case .completeLogin(let name, let id):
                return browserLogins.receive(try AdminBody.redirect(body), name, id) { [self] in
                    finish($0, call, name, peer, reply)
                }
            case .link(let name):
                return performUserCall(.link(name, try AdminBody.link(body)), name, call, peer, reply)
            case .account(let name, let accountCall):
                let userCall = UserCall.call(name, try accountCall.request(body))
                return performUserCall(userCall, name, call, peer, reply)
            case .emailPassword(let identity, let verb):
                let userCall = UserCall.manageAccount(
                    identity: identity, try AdminBody.emailPassword(verb, body))
                return performUserCall(userCall, nil, call, peer, reply)
            default: try AdminBody.nothing(body)
            }
        } catch {
            return finish(.problem(error), call, call.userName, peer, reply)
        }
        switch call {
        case .openAPI: finish(AdminDocument.response, call, nil, peer, reply)
        case .status(let page):
            pages.async { [self] in
                let response = AdminResponses.status(
                    sources.info, sources.users.report, page, logins: browserLogins.inProgress, now: .now)
                finish(response, call, nil, peer, reply)
            }
        case .users(let page):
            pages.async { [self] in finish(AdminResponses.users(sources.users.report, page), call, nil, peer, reply) }
        case .user(let name):
            let reported = sources.users.report.user(named: name)
            finish(reported.map { AdminResponses.user($0) } ?? .noSuchUser, call, name, peer, reply)
        case .loginResult(let name, let id): finish(browserLogins.report(name, id), call, name, peer, reply)
        case .cancelLogin(let name, let id): finish(browserLogins.cancel(name, id), call, name, peer, reply)
        case .activate(let name): performUserCall(.activate(name), name, call, peer, reply)
        case .refresh(let name): performUserCall(.refresh(name), name, call, peer, reply)
        case .logOut(let name): end(.logOut(name), name, call, peer, reply)
        case .remove(let name): end(.remove(name), name, call, peer, reply)
        case .deleteAccount(let name): end(.deleteAccount(name), name, call, peer, reply)
        case .customData(let name): performUserCall(.customData(name), name, call, peer, reply)
        case .token(let name, let variant):
            guard sources.exposesTokens else { return finish(.tokenNotExposed, call, name, peer, reply) }
            performUserCall(.accessToken(name, variant), name, call, peer, reply)
        case .shutdown:
            // The response leaves with the listener's next turn: the stop has begun by then, and cannot end before the response is queued.
            finish(AdminResponses.stopping(), call, nil, peer, reply)
            sources.control.stop()
        case .reload:
            sources.control.reload { [self] in finish(AdminResponses.reloaded($0), call, nil, peer, reply) }
        case .logLevel: finish(AdminResponses.logLevel(sources.control.verbosity), call, nil, peer, reply)
        case .log(let route):
            pages.async { [self] in
                finish(AdminResponses.log(sources.control.log.lines(ofRoute: route)), call, nil, peer, reply)
            }
        case .addUser, .setLogLevel, .logIn, .completeLogin, .link, .account, .emailPassword: break
        }
    }

    /// Whose service the call waits for; nil: its body says it, or none.
    func identity(of call: AdminCall) -> String? {
        if case .emailPassword(let identity, _) = call { return identity }
        return call.userName.flatMap { sources.users.report.user(named: $0)?.status.identity }
    }

    /// Sends the response of a call that is not performed, and writes its audit line.
    func reject(
        _ call: AdminCall, _ response: OperatorResponse, peer: PeerCredentials, reply: (OperatorResponse) -> Void
    ) {
        finish(response, call, call.userName, peer, reply)
    }

    /// How a login continues in a browser; nil: it is another one.
    private func browserLoginKind(_ login: AdminBody.Login, _ name: String) -> LoginKind? {
        if let kind = login.credential?.kind { return kind.isInteractive ? kind : nil }
        return browserLogins.configuredKind(of: name)
    }

    private func begin(
        _ request: BrowserLoginRequest, _ login: AdminBody.Login, _ name: String, _ call: AdminCall,
        _ peer: PeerCredentials, _ reply: @escaping @Sendable (OperatorResponse) -> Void
    ) {
        browserLogins.begin(name, request, activates: login.activates) { [self] in
            finish($0, call, name, peer, reply)
        }
    }

    private func add(
        _ newUser: AdminBody.NewUser, _ call: AdminCall, _ peer: PeerCredentials,
        _ reply: @escaping @Sendable (OperatorResponse) -> Void
    ) {
        let userCall = UserCall.add(
            name: newUser.name, identity: newUser.identity, newUser.credential, activates: newUser.activates)
        performUserCall(userCall, newUser.name, call, peer, reply)
    }

    /// Performs a call that ends a session, and the login in a browser that would begin the next one.
    private func end(
        _ userCall: UserCall, _ name: String, _ call: AdminCall, _ peer: PeerCredentials,
        _ reply: @escaping @Sendable (OperatorResponse) -> Void
    ) {
        browserLogins.end(name) { [self] in performUserCall(userCall, name, call, peer, reply) }
    }

    /// - Parameter name: the user in the call; nil: the call is about no user of this device.
    private func performUserCall(
        _ userCall: UserCall, _ name: String?, _ call: AdminCall, _ peer: PeerCredentials,
        _ reply: @escaping @Sendable (OperatorResponse) -> Void
    ) {
        sources.users.perform(userCall) { [self] result in
            if case .success(.accessTokens(let tokens)) = result { logIssue(tokens, call) }
            finish(response(result, name, call), call, Self.userName(of: result) ?? name, peer, reply)
        }
    }

    /// The user in the response. A login may end in the account of another user than the call named; no user then has that name.
    private static func userName(of result: Result<UserOutcome, UserError>) -> String? {
        switch result {
        case .success(.added(let reported, _)), .success(.user(let reported, _)): reported.status.user
        default: nil
        }
    }

    private func response(
        _ result: Result<UserOutcome, UserError>, _ name: String?, _ call: AdminCall
    ) -> OperatorResponse {
        switch result {
        case .success(.added(let reported, let isStored)): AdminResponses.added(reported, isStored: isStored)
        case .success(.user(let reported, let isStored)): AdminResponses.user(reported, isStored: isStored)
        case .success(.refreshed(let expiry)): AdminResponses.refreshed(expiry)
        case .success(.loggedOut(let reported, let revocation, let isStored)):
            AdminResponses.loggedOut(reported, name: name ?? "", revocation, isStored: isStored)
        case .success(.removed(isStored: true)): OperatorResponse(status: 204, body: [])
        case .success(.removed(isStored: false)): AdminResponses.removed(name ?? "")
        case .success(.result(let text)): AdminResponses.result(text, status: call.resultStatus)
        case .success(.accessTokens(let tokens)): AdminResponses.accessTokens(tokens, user: name ?? "")
        case .failure(let error):
            .problem(error, user: name, session: name.flatMap { sources.users.report.user(named: $0)?.status })
        }
    }

    /// Writes the audit line before the response, so that a client that has the response finds the line.
    private func finish(
        _ response: OperatorResponse, _ call: AdminCall, _ user: String?, _ peer: PeerCredentials,
        _ reply: (OperatorResponse) -> Void
    ) {
        if call.isAudited { audit(call, user, response.problemName ?? "ok", peer) }
        reply(response)
    }

    /// An operator sees who holds tokens: one line for each token of the response.
    private func logIssue(_ tokens: ShownTokens, _ call: AdminCall) {
        guard case .token(let name, let asked) = call else { return }
        let all = [(variant: asked, token: tokens.plain)] + tokens.variants.map { ($0.named.variant, $0.token) }
        for (variant, token) in all {
            var metadata: Logger.Metadata = ["event": "token.issued", "caller": "admin", "user": .string(name)]
            if let variant { metadata["token"] = .string(variant.text) }
            if let audience = variant?.audience { metadata["audience"] = .string(audience) }
            if let rest = token.rest {
                metadata["expires_in"] = .stringConvertible(IssuedLifetime.seconds(rest: rest))
            }
            log.info("an access token was given out", metadata: metadata)
        }
    }

    private func audit(_ call: AdminCall, _ user: String?, _ result: String, _ peer: PeerCredentials) {
        var metadata: Logger.Metadata = [
            "event": "admin.call", "call": .string(call.auditName), "result": .string(result),
        ]
        if let uid = peer.uid { metadata["uid"] = .stringConvertible(uid) }
        if let pid = peer.pid { metadata["pid"] = .stringConvertible(pid) }
        if let user { metadata["user"] = .string(user) }
        auditLog.notice("admin call", metadata: metadata)
    }
}

extension AdminCall {
    /// The status of a result that the identity service has given.
    fileprivate var resultStatus: Int {
        switch self {
        case .account(_, let call): call.status
        case .emailPassword(_, let verb): verb.status
        default: 200
        }
    }
}

extension AdminAccountCall {
    /// The call with its body.
    fileprivate func request(_ body: UnsafeRawBufferPointer) throws(AdminBody.ReadError) -> AccountCall {
        switch self {
        case .createAPIKey: return .createAPIKey(name: try AdminBody.apiKeyName(body))
        case .function(let name): return .function(name: name, arguments: try AdminBody.arguments(body))
        default: try AdminBody.nothing(body)
        }
        switch self {
        case .profile: return .profile
        case .apiKey(let id): return .apiKey(id)
        case .deleteAPIKey(let id): return .deleteAPIKey(id)
        case .enableAPIKey(let id): return .enableAPIKey(id)
        case .disableAPIKey(let id): return .disableAPIKey(id)
        case .apiKeys, .createAPIKey, .function: return .apiKeys
        }
    }
}
