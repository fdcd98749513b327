import Logging
import TestSupport
import Testing

@testable import LanyardAdmin
@testable import LanyardFoundations
@testable import LanyardSessionInterface
@testable import LanyardSessions
@testable import LanyardSettings
@testable import LanyardTelemetry

/// Logins in a browser as the admin API keeps them, before a service that a test plays.
@Suite struct BrowserLoginRegistryTests {
    /// A service whose logins end as the test says.
    private final class PlayedLogins: BrowserLoginService {
        struct Begun: Sendable {
            let request: BrowserLoginRequest
            let prompt: @Sendable (BrowserLoginPrompt) -> Void
            let end: @Sendable (Result<LoginMethod<Secret>, IdentityError>) -> Void
            let login: PlayedLogin
        }

        let begun = Guarded<[Begun]>([])
        let discarded = Guarded<[UInt64]>([])

        func begin(
            _ request: BrowserLoginRequest, onPrompt: @escaping @Sendable (BrowserLoginPrompt) -> Void,
            onEnd: @escaping @Sendable (Result<LoginMethod<Secret>, IdentityError>) -> Void
        ) -> any BrowserLogin {
            let login = PlayedLogin()
            begun.withLock { $0.append(Begun(request: request, prompt: onPrompt, end: onEnd, login: login)) }
            return login
        }

        func discard(_ login: LoginMethod<Secret>) { discarded.withLock { $0.append(login.ticket ?? 0) } }
    }

    private final class PlayedLogin: BrowserLogin {
        let isCancelled = Guarded(false)
        let defect = Guarded<String?>(nil)
        func cancel() { isCancelled.withLock { $0 = true } }
        func receive(query: Secret, reply: @escaping @Sendable (String?) -> Void) { reply(defect.withLock { $0 }) }
    }

    /// The response of the call that begins a login; nil: none yet.
    private final class Received: Sendable {
        private let response = Guarded<OperatorResponse?>(nil)
        var value: OperatorResponse? { response.withLock { $0 } }
        func set(_ got: OperatorResponse) { response.withLock { $0 = got } }
    }

    private struct Bench {
        let users = PlayedUsers()
        let service = PlayedLogins()
        let log = AuditLog()
        let registry: BrowserLoginRegistry

        init() {
            let (service, log) = (service, log)
            registry = BrowserLoginRegistry(
                { user, _ in
                    user == "bob"
                        ? BrowserLoginTarget(service, configured: .device)
                        : user == "fixed" ? BrowserLoginTarget(nil, configured: nil) : nil
                }, users: users, log: Logger(label: "test") { _ in AuditLog.Handler(log: log) })
        }

        /// Begins a login of bob that shows its code.
        func begin(shows: Bool = true) -> (response: Received, index: Int) {
            let response = Received()
            registry.begin("bob", .device, activates: true) { response.set($0) }
            let index = service.begun.withLock { $0.count } - 1
            if shows { self[index].prompt(BrowserLoginRegistryTests.prompt) }
            return (response, index)
        }

        subscript(_ index: Int) -> PlayedLogins.Begun { service.begun.withLock { $0[index] } }
    }

    private static let prompt = BrowserLoginPrompt(
        uri: "https://i/d", userCode: "AB", completeURI: nil, expiresAt: WallTime(seconds: 1_700_000_000),
        interval: .seconds(5))

    private static func id(_ received: Received) throws -> String {
        let response = try #require(received.value)
        let location = try #require(response.fields.first { $0.hasPrefix("Location: ") })
        return String(location.suffix(16))
    }

    private static func text(_ response: OperatorResponse) -> String { String(decoding: response.body, as: UTF8.self) }

    @Test("a login is pending with what the user needs, until it has failed with its problem")
    func pending() throws {
        let bench = Bench()
        let (response, index) = bench.begin()
        let begun = try #require(response.value)
        let id = try Self.id(response)
        #expect(begun.status == 202 && begun.fields == ["Location: /v1/users/bob/login/\(id)"])
        let expected =
            #"{"id":"\#(id)","name":"bob","kind":"device","status":"pending","verification_uri":"https://i/d","user_code":"AB","#
            + #""verification_uri_complete":null,"expires_at":"2023-11-14T22:13:20.000Z","interval":5}"#
        #expect(Self.text(bench.registry.report("bob", id)) == expected)
        bench[index].end(.failure(IdentityError(.credentialRefused, code: "access_denied", message: "denied")))
        let failed = Self.text(bench.registry.report("bob", id))
        #expect(
            failed.contains(#""status":"failed","problem":{"type":"urn:lanyard:problem:credential-refused""#),
            "\(failed)")
        #expect(bench.log.lines("browser_login.ended").map { $0["result"] } == ["credential-refused"])
    }

    @Test("a login that fails before it shows anything is the problem of the call that began it")
    func immediate() throws {
        let bench = Bench()
        let (response, index) = bench.begin(shows: false)
        #expect(response.value == nil)
        bench[index].end(.failure(IdentityError(.clientRefused, message: "no endpoint")))
        #expect(response.value?.problemName == "identity-error")
    }

    @Test("a later login takes the place: the earlier one ends, also while it has no response, and its id is unknown")
    func replaced() throws {
        let bench = Bench()
        let (first, _) = bench.begin()
        let (second, _) = bench.begin(shows: false)
        let (third, index) = bench.begin()
        #expect(bench[0].login.isCancelled.withLock { $0 } && bench[1].login.isCancelled.withLock { $0 })
        #expect(second.value?.problemName == "login-in-progress")
        #expect(bench.registry.report("bob", try Self.id(first)).problemName == "no-such-login")
        // What the earlier one still brings is given up.
        var method = LoginMethod<Secret>.device
        method.ticket = 7
        bench[0].end(.success(method))
        #expect(bench.service.discarded.withLock { $0 } == [7] && bench.users.requests.isEmpty)
        #expect(bench.registry.report("bob", try Self.id(third)).status == 200)
        #expect(!bench[index].login.isCancelled.withLock { $0 })
    }

    @Test("tokens go to the user's session; those that no session takes are given up")
    func session() throws {
        let bench = Bench()
        bench.users.replies(.failure(.stopping))
        let (response, index) = bench.begin()
        var method = LoginMethod<Secret>.device
        method.ticket = 9
        bench[index].end(.success(method))
        #expect(bench.users.requests == ["login bob by device"])
        #expect(bench.service.discarded.withLock { $0 } == [9])
        #expect(
            Self.text(bench.registry.report("bob", try Self.id(response))).contains("urn:lanyard:problem:shutting-down")
        )
        bench.users.replies(.success(.user(PlayedUsers.bob, isStored: true)))
        let (again, last) = bench.begin()
        bench[last].end(.success(method))
        let done = Self.text(bench.registry.report("bob", try Self.id(again)))
        #expect(done.contains(#""status":"done","user":{"name":"bob""#) && done.contains(#""stored":true"#), "\(done)")
    }

    @Test("a login that is ended is unknown; one of another user or without logins in a browser is a problem")
    func ended() throws {
        let bench = Bench()
        let (response, index) = bench.begin()
        let id = try Self.id(response)
        #expect(bench.registry.cancel("bob", "0000000000000000").problemName == "no-such-login")
        #expect(bench.registry.cancel("bob", id).status == 204 && bench[index].login.isCancelled.withLock { $0 })
        #expect(bench.registry.report("bob", id).problemName == "no-such-login")
        for (user, problem) in [("eve", "no-such-user"), ("fixed", "invalid-value")] {
            let response = Received()
            bench.registry.begin(user, .device, activates: true) { response.set($0) }
            #expect(response.value?.problemName == problem)
        }
        #expect(bench.registry.configuredKind(of: "bob") == .device && bench.registry.configuredKind(of: "eve") == nil)
    }

    @Test("a query of another login is refused, and the login still waits")
    func query() throws {
        let bench = Bench()
        let (response, index) = bench.begin()
        let id = try Self.id(response)
        bench[index].login.defect.withLock { $0 = "its state is not that of this login" }
        let refused = Received()
        bench.registry.receive(Tokens.secret("code=c"), "bob", id) { refused.set($0) }
        #expect(refused.value?.problemName == "invalid-value")
        #expect(Self.text(bench.registry.report("bob", id)).contains(#""status":"pending""#))
    }

    @Test("a login whose session takes the tokens cannot be ended: the call is a conflict, and the session begins")
    func tooLate() throws {
        let bench = Bench()
        let (response, index) = bench.begin()
        let id = try Self.id(response)
        var method = LoginMethod<Secret>.device
        method.ticket = 9
        bench[index].end(.success(method))
        #expect(Self.text(bench.registry.report("bob", id)).contains(#""status":"finishing""#))
        let refused = bench.registry.cancel("bob", id)
        #expect(refused.status == 409 && refused.problemName == "login-in-progress")
        bench.users.release(.success(.user(PlayedUsers.bob, isStored: true)))
        #expect(Self.text(bench.registry.report("bob", id)).contains(#""status":"done""#))
        // It is done, and stays so.
        #expect(bench.registry.cancel("bob", id).problemName == "no-such-login")
        #expect(bench.registry.report("bob", id).status == 200)
    }

    /// Performs a call as the admin API does.
    private func perform(_ call: AdminCall, _ handler: AdminHandler) -> Received {
        let response = Received()
        handler.perform(call, body: UnsafeRawBufferPointer(start: nil, count: 0), peer: PeerCredentials()) {
            response.set($0)
        }
        return response
    }

    private func handler(_ bench: Bench) -> AdminHandler {
        let service = bench.service
        return AdminHandler(
            AdminHandler.Sources(
                users: bench.users,
                info: ProgramInfo(version: "1", startedAt: .now, listeners: []), exposesTokens: false,
                control: ProcessControl(stop: {}, reload: { $0(.applied([])) }, verbosity: LogVerbosity(.info)),
                browserLogins: { _, _ in BrowserLoginTarget(service, configured: .device) }),
            log: Logger(label: "test") { _ in AuditLog.Handler(log: bench.log) })
    }

    @Test(
        "a logout, a removal and a deletion of the account end the user's login in a browser, which logs no user in later",
        arguments: [AdminCall.logOut("bob"), .remove("bob"), .deleteAccount("bob")])
    func logout(_ call: AdminCall) throws {
        let bench = Bench()
        let handler = handler(bench)
        let begun = perform(.logIn("bob"), handler)
        bench[0].prompt(Self.prompt)
        let id = try Self.id(begun)
        _ = perform(call, handler)
        #expect(bench[0].login.isCancelled.withLock { $0 })
        var method = LoginMethod<Secret>.device
        method.ticket = 7
        bench[0].end(.success(method))
        #expect(bench.users.requests.count == 1 && bench.service.discarded.withLock { $0 } == [7])
        let report = try #require(perform(.loginResult("bob", id: id), handler).value)
        #expect(Self.text(report).contains("logged out"), "\(Self.text(report))")
    }

    @Test("a logout while the session takes the tokens comes behind that login; another user's ends nothing")
    func logoutWhileFinishing() throws {
        let bench = Bench()
        let handler = handler(bench)
        _ = perform(.logIn("bob"), handler)
        bench[0].prompt(Self.prompt)
        _ = perform(.logOut("alice"), handler)
        #expect(!bench[0].login.isCancelled.withLock { $0 })
        bench.users.onPerform { [self] words in
            guard words.hasPrefix("login bob") else { return }
            _ = perform(.logOut("bob"), handler)
            #expect(bench.users.requests.last == "login bob by device")
        }
        var method = LoginMethod<Secret>.device
        method.ticket = 7
        bench[0].end(.success(method))
        #expect(bench.users.requests == ["logout alice", "login bob by device", "logout bob"])
    }
}
