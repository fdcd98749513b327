import Dispatch
import Glibc
import Logging
import TestSupport

@testable import LanyardAdmin
@testable import LanyardFoundations
@testable import LanyardRequestPath
@testable import LanyardSessionInterface
@testable import LanyardSessions
@testable import LanyardSettings
@testable import LanyardTelemetry

/// An admin listener on a socket of its own, before users that a test plays.
final class AdminServer: Sendable {
    static let token = "admin-token-of-the-test-0123456789"

    let users = PlayedUsers()
    let log = AuditLog()
    let endpoint: RawEndpoint
    let verbosity = LogVerbosity(.info)
    private let stops = Counter()
    private let loop: EventLoop
    private let listener: AdminListener
    private let folder: TemporaryFolder

    /// - Parameters:
    ///   - isTCP: a port with a token; else a unix socket.
    ///   - reloads: what each reload comes to.
    ///   - onStop: the call that begins the shutdown.
    ///   - timeStands: the listener's time passes by `pass` alone.
    init(
        isTCP: Bool = false, tokenFile: String? = nil, exposesTokens: Bool = false, limits: AdminLimits = AdminLimits(),
        reloads: ReloadOutcome = .applied([]), onStop: @escaping @Sendable () -> Void = {}, timeStands: Bool = false
    ) throws {
        folder = try TemporaryFolder()
        let address: ListenerSettings.Address =
            isTCP ? .tcp(host: "127.0.0.1", port: 0) : .unix(path: folder.file("admin.sock"))
        let socket = try ListeningSocket(ListenerSettings(address: address))
        endpoint = try RawEndpoint(socket.address.description)
        loop = try EventLoop(label: "test.admin")
        let file = try folder.write("token", Self.token + "\n")
        // As if the file had been there for long: it needs no second look.
        let files = FileReader { path, known in
            var read = FileSnapshot.read(path, known: known)
            read.stamp?.changedAt = 0
            return read
        }
        let log = log
        let stops = stops
        let verbosity = verbosity
        listener = AdminListener(
            socket, loop: loop, tokenFile: isTCP ? tokenFile ?? file : nil, by: files, users: users,
            info: ProgramInfo(
                version: "1.2.3", startedAt: .now - .seconds(90),
                listeners: [.init(name: "data", address: "127.0.0.1:7400")]),
            exposesTokens: exposesTokens,
            control: ProcessControl(
                stop: {
                    onStop()
                    stops.add()
                }, reload: { reply in reply(reloads) }, verbosity: verbosity),
            limits: limits,
            log: Logger(label: "test") { _ in AuditLog.Handler(log: log) })
        loop.start()
        if timeStands { loop.freezeTime() }
        listener.start()
        // The listener has asked for the token; who asks behind it is answered behind it.
        loop.queue.sync {}
        let isRead = DispatchSemaphore(value: 0)
        files.read(at: tokenFile ?? file, on: loop) { _ in isRead.signal() }
        isRead.wait()
    }

    deinit {
        listener.stop()
        loop.stop()
    }

    var stopCount: Int { stops.value }

    func pass(_ duration: Duration) { loop.pass(duration) }

    /// Returns when the listener has handled everything that has arrived.
    func settle() { loop.settle() }

    func ask(
        _ method: String, _ target: String, _ body: String? = nil, fields: [(String, String)] = []
    ) async throws -> RawMessage {
        var fields = fields
        if case .tcp = endpoint { fields.append(("Authorization", "Bearer \(Self.token)")) }
        return try await RawClient.ask(endpoint, method, target, fields: fields, body: body)
    }

    /// Talks over one connection, on a thread of its own.
    func talk<Value: Sendable>(_ work: @escaping @Sendable (RawClient) throws -> Value) async throws -> Value {
        let endpoint = endpoint
        let client = try RawClient(endpoint)
        defer { client.close() }
        return try work(client)
    }

    /// The type of a problem without what all types begin with.
    static func problem(_ response: RawMessage) throws -> String {
        guard response["Content-Type"] == "application/problem+json" else { return "none" }
        let json = try response.json
        guard json["status"].int == response.status else { return "status \(json["status"])" }
        return String((json["type"].string ?? "").trimmingPrefix("urn:lanyard:problem:"))
    }
}

/// Users as the admin API sees them, with prepared replies.
final class PlayedUsers: UserOperations {
    typealias Reply = @Sendable (Result<UserOutcome, UserError>) -> Void

    private let asked = Guarded<[String]>([])
    private let secrets = Guarded<[Secret]>([])
    private let parked = Guarded<[Reply]>([])
    private let heldReport = Guarded<DispatchSemaphore?>(nil)
    private let interruption = Guarded<(@Sendable (String) -> Void)?>(nil)
    /// How many users the report has beside the three.
    let otherUsers = Guarded(0)
    /// The reply; nil leaves the call waiting.
    let response = Guarded<Result<UserOutcome, UserError>?>(nil)

    /// What was asked for, without secrets.
    var requests: [String] { asked.withLock { $0 } }
    /// The secrets that came along.
    var given: [Secret] { secrets.withLock { $0 } }

    /// The next report is not completed before `releaseReport`.
    func holdReport() { heldReport.withLock { $0 = DispatchSemaphore(value: 0) } }

    func releaseReport() {
        let held = heldReport.withLock { held in
            defer { held = nil }
            return held
        }
        held?.signal()
    }

    func replies(_ result: Result<UserOutcome, UserError>) { response.withLock { $0 = result } }

    /// Replies to all calls that wait.
    func release(_ result: Result<UserOutcome, UserError>) {
        let waiting = parked.withLock { replies in
            defer { replies = [] }
            return replies
        }
        for reply in waiting { reply(result) }
    }

    var waiting: Int { parked.withLock { $0.count } }

    /// What to do inside of each call, before it has its reply.
    func onPerform(_ body: @escaping @Sendable (_ words: String) -> Void) { interruption.withLock { $0 = body } }

    func perform(_ request: UserCall, reply: @escaping Reply) {
        note(request)
        if let body = interruption.withLock({ $0 }) { body(requests.last ?? "") }
        if let result = response.withLock({ $0 }) { reply(result) } else { parked.withLock { $0.append(reply) } }
    }

    private func note(_ request: UserCall) {
        let words =
            switch request {
            case .add(let name, let identity, let credential, let activates):
                "add \(name) at \(identity) by \(words(credential))" + (activates ? "" : ", not active")
            case .login(let name, let credential, let activates):
                "login \(name) by \(credential.map(words) ?? "configuration")" + (activates ? "" : ", not active")
            case .activate(let name): "activate \(name)"
            case .refresh(let name): "refresh \(name)"
            case .logOut(let name): "logout \(name)"
            case .remove(let name): "remove \(name)"
            case .call(let name, let call): "\(words(call)) as \(name)"
            case .link(let name, let credential): "link \(name) by \(words(credential))"
            case .deleteAccount(let name): "delete the account of \(name)"
            case .customData(let name): "custom data of \(name)"
            case .accessToken(let name, let variant): "token of \(name)" + (variant.map { " for \($0.text)" } ?? "")
            case .manageAccount(let identity, let call): "\(words(call)) at \(identity)"
            }
        asked.withLock { $0.append(words) }
    }

    private func words(_ call: AccountCall) -> String {
        switch call {
        case .profile: "profile"
        case .identities: "identities"
        case .deleteAccount: "deletion"
        case .apiKeys: "keys"
        case .createAPIKey(let name): "new key \(name)"
        case .apiKey(let id): "key \(id)"
        case .deleteAPIKey(let id): "delete key \(id)"
        case .enableAPIKey(let id): "enable key \(id)"
        case .disableAPIKey(let id): "disable key \(id)"
        case .function(let name, let arguments): "function \(name) with \(Tokens.text(arguments) ?? "-")"
        case .emailPassword(let call): words(call)
        }
    }

    private func words(_ call: EmailPasswordCall) -> String {
        switch call {
        case .register(let email, let password):
            secrets.withLock { $0.append(password) }
            return "register \(email)"
        case .confirm(let token, let tokenID):
            secrets.withLock { $0 += [token, tokenID] }
            return "confirm"
        case .resendConfirmation(let email): return "resend \(email)"
        case .retryCustomConfirmation(let email): return "retry \(email)"
        case .sendResetEmail(let email): return "send reset \(email)"
        case .resetPassword(let token, let tokenID, let password):
            secrets.withLock { $0 += [token, tokenID, password] }
            return "reset"
        case .callResetFunction(let email, let password, let arguments):
            secrets.withLock { $0.append(password) }
            return "call reset \(email) with \(Tokens.text(arguments) ?? "-")"
        }
    }

    private func words(_ credential: LoginMethod<Secret>) -> String {
        if let secret = credential.secret { secrets.withLock { $0.append(secret) } }
        return switch credential.kind {
        case .anonymous: "nothing"
        case .emailPassword: "password of \(credential.account ?? "-")"
        case .apiKey: "key"
        default: credential.provider
        }
    }

    static func status(
        _ name: String, _ number: Int, _ state: SessionState, account: String? = nil, generation: Generation = .zero,
        expiry: WallTime? = nil, error: String? = nil
    ) -> SessionStatus {
        SessionStatus(
            user: name, index: UserIndex(number), identity: "demo", accountID: account, state: state,
            reason: .tokenValid, tokens: .init(generation: generation, accessExpiry: expiry), nextRefreshAt: nil,
            failure: error.map { .init(message: $0, since: WallTime(seconds: 1_800_000_000)) },
            action: state == .loginRequired ? .user : .nobody, hasEverBeenReady: true)
    }

    /// Alice is active, bob is inactive, carol has no session. Then come the others.
    var report: SessionReport {
        if let held = heldReport.withLock({ $0 }) { held.wait() }
        let known = [
            Self.status(
                "alice", 0, .stale, account: "65f0c0ffee", generation: 7,
                expiry: WallTime(seconds: 1_900_000_000), error: "it said \"no\""),
            Self.status("bob", 3, .valid), Self.status("carol", 1, .loginRequired),
        ]
        let others = (0..<otherUsers.withLock { $0 }).map { Self.status("user-\($0)", 4 + $0, .valid) }
        return SessionReport(users: known + others, activeUser: UserIndex(0))
    }

    static let bob = ReportedUser(status: status("bob", 3, .valid, account: "b0b"), userState: .active)
}

/// The lines that a listener logs.
final class AuditLog: Sendable {
    private let box = Guarded<[[String: String]]>([])

    /// The metadata of all lines of one event.
    func lines(_ event: String) -> [[String: String]] { box.withLock { $0 }.filter { $0["event"] == event } }

    /// Everything as one text.
    var text: String { box.withLock { "\($0)" } }

    struct Handler: LogHandler {
        let log: AuditLog
        var metadata: Logger.Metadata = [:]
        var logLevel = Logger.Level.trace

        init(log: AuditLog) { self.log = log }

        subscript(metadataKey key: String) -> Logger.Metadata.Value? {
            get { metadata[key] }
            set { metadata[key] = newValue }
        }

        func log(event: LogEvent) {
            var line = (event.metadata ?? [:]).mapValues { "\($0)" }
            line["message"] = "\(event.message)"
            log.box.withLock { $0.append(line) }
        }
    }
}
