import TestSupport
import Testing

@testable import LanyardFoundations
@testable import LanyardSessionInterface
@testable import LanyardSessions

/// How users and the service end: responses are true, and every session at the identity service is held here or
/// revoked.
@Suite struct SessionServiceEndingTests {
    private typealias Life = SessionServiceUserTests.Life

    private let bench: SessionServiceBench
    private let store = KeptStore()

    init() async throws {
        bench = try await SessionServiceBench(startsService: false)
        for name in ["bob", "carol"] {
            try await bench.control("/users", #"{"email":"\#(name)@example.com","password":"secret-\#(name)"}"#)
        }
    }

    private func live(_ users: [String] = ["alice"], to known: [String] = ["alice:active"]) async throws -> Life {
        let life = try Life(bench, on: store, users: users)
        try await life.becomes(known)
        return life
    }

    private func revocations() async throws -> Int? {
        try await RawClient.ask(.tcp(bench.port), "GET", "/emulator/ledger").json["total"]["revocations"].int
    }

    @Test(
        "a logout or removal while the store fails says that it is not stored, takes effect, and is stored when the store is back"
    )
    func unsavedEnd() async throws {
        let life = try await live()
        try await life.add("bob")
        store.fails(true)
        guard case .success(.loggedOut(_, .confirmed, isStored: false)) = await life.ask(.logOut("alice")),
            case .success(.removed(isStored: false)) = await life.ask(.remove("bob"))
        else {
            throw TestFailure("said to be stored")
        }
        #expect(store.contents["alice"]?.session != nil && store.contents["bob"] != nil)
        store.fails(false)
        life.service.loop.pass(.seconds(10))
        try await eventually("both are stored") {
            store.contents["alice"]?.isLoggedOut == true && store.contents["bob"] == nil
                && store.contents.revocations.isEmpty
        }
        await bench.end()
    }

    @Test(
        "a user that is removed while a login is in progress: the late session is revoked, the name is free at once"
    )
    func removedDuringLogin() async throws {
        let life = try await live()
        try await life.add("bob")
        try await bench.control("/delays", #"{"route":"login","milliseconds":400}"#)
        async let login = life.ask(.login("bob", SessionServiceUserTests.email("bob")))
        try await eventually("it is in progress") { try await bench.calls("login") == 3 }
        guard case .success(.removed(isStored: true)) = await life.ask(.remove("bob")) else {
            throw TestFailure("not removed")
        }
        _ = await login
        let again = await life.ask(.add(name: "bob", identity: "demo", SessionServiceUserTests.email("carol")))
        guard case .success(.added) = again else { throw TestFailure("the name was not free: \(again)") }
        try await eventually("both are revoked") { try await revocations() == 2 }
        await bench.end()
    }

    @Test("a user that only the store knows is named at the start, and can be forgotten, at the service as well")
    func foreignUser() async throws {
        do {
            let life = try await live(["alice", "carol"], to: ["alice:active", "carol:logged_out"])
            _ = await life.ask(.login("carol", SessionServiceUserTests.email("carol")))
            let intent = StoredIntent(kind: .login, at: .now, tries: 0)
            store.apply(
                .storeIntent(user: "zoe", identity: "demo", intent, base: SessionVersion(session: 0, generation: 0)))
        }
        let life = try await live()
        #expect(bench.log.lines.count { $0.contains("store.user.unknown") } == 1)
        // The rest of an interrupted login is removed automatically.
        try await eventually("zoe is gone") { store.contents["zoe"] == nil }
        #expect(store.contents["carol"]?.session != nil)
        guard case .success(.removed(isStored: true)) = await life.ask(.remove("carol")),
            case .failure(.noSuchUser) = await life.ask(.remove("carol"))
        else {
            throw TestFailure("not forgotten")
        }
        #expect(store.contents["carol"] == nil && store.contents.revocations.isEmpty)
        #expect(try await revocations() == 1)
        await bench.end()
    }

    @Test("at the end a login that is in progress is waited for, stored and reported")
    func settles() async throws {
        let life = try await live()
        try await bench.control("/delays", #"{"route":"login","milliseconds":500}"#)
        async let login = life.ask(.add(name: "bob", identity: "demo", SessionServiceUserTests.email("bob")))
        try await eventually("it is in progress") { try await bench.calls("login") == 2 }
        life.service.drain(within: .milliseconds(100), operators: .seconds(10))
        life.service.stop()
        guard case .success(.added) = await login else { throw TestFailure("not told") }
        #expect(store.contents["bob"]?.session != nil && store.contents.active?.user == "bob")
        await bench.end()
    }

    @Test("at the end an unsaved switch is tried once more")
    func settlesChoice() async throws {
        let life = try await live()
        try await life.add("bob")
        store.fails(true)
        for name in ["alice", "bob", "alice", "bob", "alice"] { _ = await life.ask(.activate(name)) }
        store.fails(false)
        life.service.drain()
        #expect(store.contents.active?.user == "alice")
        await bench.end()
    }
}
