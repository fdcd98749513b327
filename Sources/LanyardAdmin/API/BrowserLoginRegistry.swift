import LanyardFoundations
import LanyardSessionInterface
import LanyardSessions
import LanyardSettings
import Logging

/// The logins that users complete in a browser, from the admin call that begins one to its result. The latest one of each user is kept,
/// in memory only: after a restart none is known.
///
/// From any thread.
final class BrowserLoginRegistry: Sendable {
    /// Where a user logs in.
    package typealias Find = @Sendable (_ user: String, _ identity: String?) -> BrowserLoginTarget?
    typealias Reply = @Sendable (OperatorResponse) -> Void

    private enum State {
        /// The service has not responded yet; the call that has begun the login waits.
        case starting(Reply)
        case pending(BrowserLoginPrompt)
        /// The session takes the tokens.
        case finishing(BrowserLoginPrompt?)
        case done(ReportedUser, isStored: Bool)
        case failed(OperatorResponse)
    }

    private struct Entry {
        let id: String
        let kind: LoginKind
        var state: State
        var login: (any BrowserLogin)?
        /// Calls of a logout that came while the login was handed to the session; nil: it is not being handed over.
        var logouts: [@Sendable () -> Void]?
    }

    private let find: Find
    private let users: any UserOperations
    private let log: Logger
    private let entries = Guarded<[String: Entry]>([:])

    init(_ find: @escaping Find, users: any UserOperations, log: Logger) {
        self.find = find
        self.users = users
        self.log = log
    }

    /// How the user logs in if the call names no kind; nil: not in a browser.
    func configuredKind(of user: String) -> LoginKind? { find(user, identity(of: user))?.configured }

    private func identity(of user: String) -> String? { users.report.user(named: user)?.status.identity }

    /// Begins a login. One that is in progress for the same user ends: its command may be gone, and its code is worth nothing then.
    ///
    /// - Parameter reply: 202 with what the user needs, or a problem.
    func begin(_ user: String, _ request: BrowserLoginRequest, activates: Bool, reply: @escaping Reply) {
        guard let target = find(user, identity(of: user)) else { return reply(.noSuchUser) }
        guard let service = target.service else {
            return reply(
                .problem(
                    .invalidValue, "Invalid value",
                    "The identity of \(user) has no logins in a browser; give another credential.", user: user))
        }
        let id = Hex.text(UInt64.random(in: 0 ... .max), count: 16)
        let former = entries.withLock { entries in
            let former = entries[user]
            entries[user] = Entry(id: id, kind: request.kind, state: .starting(reply))
            return former
        }
        if let former { replace(former, of: user) }
        let login = service.begin(
            request, onPrompt: { [self] in show($0, user, id) },
            onEnd: { [self] in
                finish($0, user, id, service, activates: activates)
            })
        let isCurrent = entries.withLock { entries in
            guard entries[user]?.id == id else { return false }
            entries[user]?.login = login
            return true
        }
        if !isCurrent { login.cancel() }
        log.notice(
            "a login in a browser has begun",
            metadata: [
                "event": "browser_login.started", "user": .string(user), "provider": .string(request.kind.provider),
            ])
    }

    private func replace(_ former: Entry, of user: String) {
        former.login?.cancel()
        if case .starting(let reply) = former.state { reply(Self.replaced(user)) }
        for logOut in former.logouts ?? [] { logOut() }
    }

    private func problem(_ error: UserError, _ user: String) -> OperatorResponse {
        .problem(error, user: user, session: users.report.user(named: user)?.status)
    }

    private static func replaced(_ user: String) -> OperatorResponse {
        .problem(
            .loginInProgress, "Login in progress", "A later login of this user has taken the place of this one.",
            user: user)
    }

    private func show(_ prompt: BrowserLoginPrompt, _ user: String, _ id: String) {
        let reply: Reply? = change(user, id) { entry in
            guard case .starting(let reply) = entry.state else { return nil }
            entry.state = .pending(prompt)
            return reply
        }
        guard let reply else { return }
        var response = report(user, id)
        response.status = 202
        response.fields.append("Location: /v1/users/\(user)/login/\(id)")
        reply(response)
    }

    private func finish(
        _ result: Result<LoginMethod<Secret>, IdentityError>, _ user: String, _ id: String,
        _ service: any BrowserLoginService, activates: Bool
    ) {
        switch result {
        case .failure(let error): end(user, id, .failed(problem(.identity(error), user)))
        case .success(let method):
            let isCurrent: Bool? = change(user, id) { entry in
                switch entry.state {
                case .pending(let prompt): entry.state = .finishing(prompt)
                case .starting: break
                // A logout has ended it.
                case .finishing, .done, .failed: return nil
                }
                entry.logouts = []
                return true
            }
            guard isCurrent == true else { return service.discard(method) }
            users.perform(.login(user, method, activates: activates)) { [self] result in
                // Tokens that no session has taken.
                service.discard(method)
                switch result {
                case .success(.user(let reported, let isStored)), .success(.added(let reported, let isStored)):
                    end(user, id, .done(reported, isStored: isStored))
                case .success: end(user, id, .failed(problem(.notLoggedIn, user)))
                case .failure(let error): end(user, id, .failed(problem(error, user)))
                }
            }
            let logouts: [@Sendable () -> Void]? = change(user, id) { $0.logouts.take() }
            for logOut in logouts ?? [] { logOut() }
        }
    }

    /// The user logs out or is removed. A login that waits for its browser ends: confirmed later, it would log the user in again.
    ///
    /// - Parameter logOut: performs the call: now, or behind a login that is being handed to the session.
    func end(_ user: String, then logOut: @escaping @Sendable () -> Void) {
        let failed = State.failed(
            .problem(
                .notLoggedIn, "Not logged in", "The user was logged out before this login was completed.", user: user))
        let waiting = entries.withLock { entries -> Entry? in
            guard let entry = entries[user] else { return nil }
            switch entry.state {
            case .starting, .pending:
                entries[user]?.state = failed
                entries[user]?.login = nil
                return entry
            case .finishing, .done, .failed: return nil
            }
        }
        if let waiting {
            waiting.login?.cancel()
            report(failed, after: waiting.state, of: user)
        }
        let isHeld = entries.withLock { entries in
            guard entries[user]?.logouts != nil else { return false }
            entries[user]?.logouts?.append(logOut)
            return true
        }
        if !isHeld { logOut() }
    }

    private func end(_ user: String, _ id: String, _ state: State) {
        let former: State? = change(user, id) { entry in
            let former = entry.state
            (entry.state, entry.login) = (state, nil)
            return former
        }
        if let former { report(state, after: former, of: user) }
    }

    /// Tells of the end of a login the call that still waits for its beginning, and the log.
    private func report(_ state: State, after former: State, of user: String) {
        var metadata: Logger.Metadata = ["event": "browser_login.ended", "user": .string(user), "result": "ok"]
        if case .failed(let response) = state {
            metadata["result"] = .string(response.problemName ?? "")
            if case .starting(let reply) = former { reply(response) }
        }
        log.notice("a login in a browser has ended", metadata: metadata)
    }

    /// nil: the login is not the user's latest any more.
    private func change<Value>(_ user: String, _ id: String, _ body: (inout Entry) -> Value?) -> Value? {
        entries.withLock { entries in
            guard var entry = entries[user], entry.id == id else { return nil }
            let value = body(&entry)
            entries[user] = entry
            return value
        }
    }

    // MARK: The status

    /// A login in progress, as the status shows it: without its id, and without the address of a login that leads a browser back to a
    /// command, because both let a reader of the status complete it.
    struct Progress: Equatable {
        let user: String
        let kind: LoginKind
        let status: String
        /// nil: the service has not responded yet.
        let prompt: BrowserLoginPrompt?

        func write(into body: inout JSONWriter) {
            let device = kind == .device ? prompt : nil
            body.beginObject()
            body.member("name", user)
            body.member("kind", kind.provider)
            body.member("status", status)
            body.member("verification_uri", device?.uri)
            body.member("user_code", device?.userCode)
            body.member("verification_uri_complete", device?.completeURI)
            body.key("expires_at")
            if let time = prompt?.expiresAt { body.time(time) } else { body.null() }
            body.endObject()
        }
    }

    /// Those that have begun and not ended, by the names of their users.
    var inProgress: [Progress] {
        entries.withLock { entries in
            entries.sorted { $0.key < $1.key }.compactMap { user, entry -> Progress? in
                switch entry.state {
                case .starting: Progress(user: user, kind: entry.kind, status: "starting", prompt: nil)
                case .pending(let prompt): Progress(user: user, kind: entry.kind, status: "pending", prompt: prompt)
                case .finishing(let prompt): Progress(user: user, kind: entry.kind, status: "finishing", prompt: prompt)
                case .done, .failed: nil
                }
            }
        }
    }

    // MARK: Calls about a login

    /// `GET …/login/{login}`.
    func report(_ user: String, _ id: String) -> OperatorResponse {
        guard let entry = entries.withLock({ $0[user] }), entry.id == id else { return Self.unknown(user) }
        var body = JSONWriter()
        body.beginObject()
        body.key("id")
        body.string(id)
        body.key("name")
        body.string(user)
        body.key("kind")
        body.string(entry.kind.provider)
        body.key("status")
        switch entry.state {
        case .starting: body.string("starting")
        case .pending(let prompt):
            body.string("pending")
            write(prompt, entry.kind, into: &body)
        case .finishing: body.string("finishing")
        case .done(let reported, let isStored):
            body.string("done")
            body.key("user")
            body.raw(String(decoding: AdminResponses.user(reported, isStored: isStored).body, as: UTF8.self))
        case .failed(let problem):
            body.string("failed")
            body.key("problem")
            body.raw(String(decoding: problem.body, as: UTF8.self))
        }
        body.endObject()
        return OperatorResponse(status: 200, body: body.bytes)
    }

    private func write(_ prompt: BrowserLoginPrompt, _ kind: LoginKind, into body: inout JSONWriter) {
        if kind == .device {
            body.key("verification_uri")
            body.string(prompt.uri)
            body.key("user_code")
            body.string(prompt.userCode ?? "")
            body.key("verification_uri_complete")
            if let uri = prompt.completeURI { body.string(uri) } else { body.null() }
        } else {
            body.key("authorization_uri")
            body.string(prompt.uri)
        }
        body.key("expires_at")
        body.time(prompt.expiresAt)
        body.key("interval")
        body.number(Int64(prompt.interval.inSeconds.rounded(.up)))
    }

    /// `DELETE …/login/{login}`: nothing is left of it. A login whose tokens the session takes, or has taken, cannot be ended.
    func cancel(_ user: String, _ id: String) -> OperatorResponse {
        let former: Entry? = entries.withLock { entries in
            guard let entry = entries[user], entry.id == id else { return nil }
            switch entry.state {
            case .finishing, .done: break
            case .starting, .pending, .failed: entries[user] = nil
            }
            return entry
        }
        switch former?.state {
        case nil, .done: return Self.unknown(user)
        case .finishing:
            return .problem(
                .loginInProgress, "Login in progress",
                "The user has confirmed this login, and the session begins: it cannot be ended any more.", user: user)
        case .starting, .pending, .failed:
            if let former { replace(former, of: user) }
            return OperatorResponse(status: 204, body: [])
        }
    }

    /// `POST …/login/{login}`: the browser has come back.
    func receive(_ query: Secret, _ user: String, _ id: String, reply: @escaping Reply) {
        guard let entry = entries.withLock({ $0[user] }), entry.id == id else {
            return reply(Self.unknown(user))
        }
        guard let login = entry.login else { return reply(report(user, id)) }
        login.receive(query: query) { [self] defect in
            guard let defect else { return reply(report(user, id)) }
            reply(.problem(.invalidValue, "Invalid value", "The query is refused: \(defect).", user: user))
        }
    }

    private static func unknown(_ user: String) -> OperatorResponse {
        .problem(
            .noSuchLogin, "No such login",
            "This login has ended, a later one of the user has taken its place, or Lanyard has restarted.", user: user)
    }
}

/// Where a user logs in in a browser.
package struct BrowserLoginTarget: Sendable {
    /// nil: the user's identity has no such logins.
    package var service: (any BrowserLoginService)?
    /// As the configuration has it; nil: none.
    package var configured: LoginKind?

    package init(_ service: (any BrowserLoginService)?, configured: LoginKind?) {
        self.service = service
        self.configured = configured
    }
}

extension JSONWriter {
    /// A member that is `null` without a value.
    fileprivate mutating func member(_ name: String, _ value: String?) {
        key(name)
        if let value { string(value) } else { null() }
    }
}
