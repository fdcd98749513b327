import LanyardEmulator
import TestSupport
import Testing

@testable import LanyardFoundations
@testable import LanyardIdentity
@testable import LanyardSessionInterface
@testable import LanyardSessions
@testable import LanyardSettings
@testable import LanyardVault

/// A session service with the App Services client, before an emulator.
final class SessionServiceBench: Sendable {
    static let email = "alice@example.com"
    static let password = "correct horse"

    let emulator: Emulator
    let port: UInt16
    let loop: EventLoop
    let identity: AppServicesIdentity
    let service: SessionService
    let published = PublicationLog()
    let folder: TemporaryFolder
    let passwordFile: String
    let log = LogRecorder()
    let store: MemoryStore
    /// Between the client and the emulator.
    let gate: FaultGate
    private let passed = Tally()

    /// - Parameters:
    ///   - password: the content of the file; nil: no file.
    ///   - hasLogin: whether alice has a credential.
    init(
        password: String? = SessionServiceBench.password, hasLogin: Bool = true,
        startsService: Bool = true
    ) async throws {
        var options = EmulatorOptions()
        options.seed.users = [.init(email: Self.email, password: Self.password)]
        emulator = try await Emulator.start(options)
        port = emulator.port
        folder = try TemporaryFolder()
        passwordFile = folder.file("password")
        let contents = StoreContents(fingerprintKey: KeyedHash.newKey())
        store = MemoryStore(fingerprintKey: contents.fingerprintKey)
        if let password { _ = try folder.write("password", password) }
        loop = try EventLoop(label: "test.identity")
        loop.start()
        gate = try FaultGate(before: .tcp(port))
        let app = IdentitySettings.AppServices(appID: "demo-abcde", baseURL: "http://\(gate.endpoint)")
        identity = AppServicesIdentity(
            IdentitySettings(name: "demo", kind: .appServices(app)), app: app, version: "1", on: loop,
            logger: log.logger)
        let login = UserSettings.Login.emailPassword(email: Self.email, password: passwordFile)
        let alice = ManagedUser(
            UserSettings(name: "alice", identity: "demo", login: hasLogin ? login : nil), source: .service(identity),
            credential: hasLogin ? CredentialFileWatch(on: loop) : nil)
        service = try SessionService(
            [alice], store: store, contents: contents, subscribers: [published],
            logger: log.logger)
        if startsService { service.start() }
    }

    /// A test that throws does not reach `end()`: none of its loops continues until the process ends.
    deinit { stop() }

    func end() async {
        stop()
        await emulator.stop()
    }

    private func stop() {
        service.stop()
        identity.stop()
        loop.stop()
    }

    var alice: SessionStatus { service.report.users[0] }

    /// Passes whole seconds on the loops of the service and its client, and on the emulator's clock. A call that begins then is not waited
    /// for.
    func pass(_ duration: Duration, of service: SessionService? = nil) async throws {
        passed.add(Int(duration.inSeconds.rounded(.up)))
        try await control("/settings", #"{"clock_offset_seconds":\#(passed.value)}"#, method: "PUT")
        [loop, (service ?? self.service).loop].pass(duration)
    }

    /// The same, until just after a user's next refresh was due: alice's, unless told otherwise.
    func passToRefresh(of service: SessionService? = nil, user: Int = 0) async throws {
        let service = service ?? self.service
        let next = try #require(service.report.users[user].nextRefreshAt)
        let now = service.loop.perform { WallTime.now }
        try await pass(.seconds((next - now).inSeconds.rounded(.up) + 1), of: service)
    }

    /// The service's time.
    var now: Instant { service.loop.perform { .now } }

    func becomes(_ state: SessionState) async throws {
        try await eventually("alice is \(state)") { self.alice.state == state }
    }

    func control(_ call: String, _ body: String, method: String = "POST") async throws {
        let response = try await RawClient.ask(.tcp(port), method, "/emulator\(call)", body: body)
        #expect(response.status < 300, "\(call): \(response.bodyText)")
    }

    /// Calls of one route that have reached the emulator.
    func calls(_ route: String) async throws -> Int {
        let counts = try await RawClient.ask(.tcp(port), "GET", "/emulator/counts").json
        return try #require(counts["routes"][route]["calls"].int)
    }

    /// All calls of the client API.
    func calls() async throws -> Int {
        var sum = 0
        for route in ["location", "register", "login", "refresh", "logout", "profile", "other"] {
            sum += try await calls(route)
        }
        return sum
    }

    /// The response of the emulator's protected resource to the latest published token.
    func useToken() async throws -> Int {
        // On a loaded machine a short token may end before its successor comes.
        try await eventually("a token is published") { published.token() != nil }
        let token = try #require(published.token())
        let text = try #require(Tokens.text(token.token))
        let client = try RawClient(.tcp(port))
        defer { client.close() }
        try client.send("GET /protected/ HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer \(text)\r\n\r\n")
        return try client.response().status
    }

    /// A session at the emulator that the service did not begin.
    func foreignSession() async throws -> Grant {
        let file = try folder.write("other", Self.password)
        return try await withCheckedContinuation { done in
            identity.login(.configured(.emailPassword(email: Self.email, password: file)), guarded: nil) {
                done.resume(returning: $0)
            }
            // The file of a credential counts when a second read has found the same.
            loop.pass(FileSettling.settlingDelay)
        }.get()
    }

    func metric(_ name: String, _ labels: [String: String] = [:]) -> Double? {
        service.report.samples().first { sample in
            sample.name + sample.suffix == name
                && labels.allSatisfy { label in sample.labels.contains(.init(label.key, label.value)) }
        }?.value
    }
}

extension SessionService {
    /// For a test: the product's own limit is far beyond what a test lasts.
    func drain() { drain(within: .seconds(3600)) }
}
