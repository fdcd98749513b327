import LanyardAdmin
import TestSupport
import Testing

@Suite struct HealthReportTests {
    @Test("ready: the active user and every pinned one have a valid token")
    func ready() throws {
        let facts = Self.facts([.alice, .bob], active: "alice", follows: true, pinned: ["bob", "alice"])
        let response = HealthReport(facts).ready
        #expect(response.status == 200)
        #expect(
            String(decoding: response.body, as: UTF8.self)
                == #"{"status":"ready","checks":[{"name":"session:alice","ok":true,"reason":"token_valid"},"#
                + #"{"name":"session:bob","ok":true,"reason":"token_valid"},"#
                + #"{"name":"listener","ok":true,"reason":"listening"},"#
                + #"{"name":"store","ok":true,"reason":"memory_only"},"#
                + #"{"name":"clock","ok":true,"reason":"clock_in_step"}]}"#)
    }

    @Test(
        "a wanted user without a token makes it not ready, with its reason",
        arguments: [
            "logging_in", "logged_out", "login_required", "credential_refused", "identity_unreachable", "identity_gone",
        ])
    func notReady(reason: String) throws {
        let broken = HealthSnapshot.User(name: "alice", isReady: false, reason: reason, hasBeenReady: true)
        let response = HealthReport(Self.facts([broken, .bob], active: "alice", follows: true, pinned: ["bob"])).ready
        #expect(response.status == 503)
        #expect(try Self.reasons(response)["session:alice"] == reason)
        #expect(try Self.failing(response) == ["session:alice"])
    }

    @Test("a user whose first login has not ended is not ready")
    func firstLogin() {
        let first = HealthSnapshot.User(name: "alice", isReady: false, reason: "logging_in", hasBeenReady: false)
        let report = HealthReport(Self.facts([first], active: "alice", follows: true))
        #expect(report.ready.status == 503 && report.started(before: false).status == 503)
    }

    @Test("a failing refresh with a valid token is still ready")
    func refreshFailing() throws {
        let stale = HealthSnapshot.User(name: "alice", isReady: true, reason: "refresh_failing", hasBeenReady: true)
        let response = HealthReport(Self.facts([stale], active: "alice", follows: true)).ready
        #expect(response.status == 200)
        #expect(try Self.reasons(response)["session:alice"] == "refresh_failing")
    }

    @Test("users whom no route wants do not decide")
    func unwanted() {
        let facts = Self.facts([.alice, .brokenCarol], active: "alice", follows: true)
        #expect(HealthReport(facts).ready.status == 200)
        #expect(HealthReport(Self.facts([.brokenCarol, .bob], active: "carol", pinned: ["bob"])).ready.status == 200)
    }

    @Test("no active user, though a route follows one: not ready, not started")
    func noActiveUser() throws {
        let report = HealthReport(Self.facts([.alice], active: nil, follows: true))
        #expect(report.ready.status == 503)
        #expect(try Self.reasons(report.ready)["session"] == "no_active_user")
        #expect(report.started(before: false).status == 503)
    }

    @Test("a pinned user who is not configured is missing")
    func unconfiguredUser() throws {
        let response = HealthReport(Self.facts([.alice], active: nil, pinned: ["zoe"])).ready
        #expect(response.status == 503)
        #expect(try Self.reasons(response)["session:zoe"] == "logged_out")
    }

    @Test("draining turns readiness off; the other users' pages and liveness stay")
    func draining() throws {
        var facts = Self.facts([.alice], active: "alice", follows: true)
        facts.isDraining = true
        let report = HealthReport(facts)
        #expect(report.ready.status == 503)
        #expect(try Self.failing(report.ready) == ["listener"])
        #expect(try Self.reasons(report.ready)["listener"] == "draining")
        #expect(report.live.status == 200)
        #expect(report.ready(user: "alice")?.status == 200)
    }

    @Test("a failing store and a clock that is off inform, and decide nothing")
    func advisory() throws {
        var facts = Self.facts([.alice], active: "alice", follows: true)
        facts.store = .failing
        facts.clockSkew = .seconds(-31)
        let response = HealthReport(facts).ready
        #expect(response.status == 200)
        #expect(try Self.failing(response) == ["store", "clock"])
        #expect(try Self.reasons(response)["store"] == "store_failing")
        #expect(try Self.reasons(response)["clock"] == "clock_off")
    }

    @Test("liveness is the heartbeat and nothing else", arguments: [(9_999, 200), (10_000, 503)])
    func live(milliseconds: Int, status: Int) {
        var facts = Self.facts([.brokenCarol], active: "carol", follows: true)
        facts.heartbeatAge = .milliseconds(milliseconds)
        #expect(HealthReport(facts).live.status == status)
    }

    @Test("one user's page, wanted or not; that of no user is nil")
    func oneUser() throws {
        let report = HealthReport(Self.facts([.alice, .brokenCarol], active: "alice", follows: true))
        #expect(report.ready(user: "alice")?.status == 200)
        #expect(report.ready(user: "carol")?.status == 503)
        #expect(report.ready(user: "zoe") == nil)
        #expect(report.ready(user: "") == nil)
    }

    @Test("started with the first token of a wanted user, and for good")
    func started() {
        let fresh = HealthSnapshot.User(name: "alice", isReady: false, reason: "logging_in", hasBeenReady: false)
        let before = HealthReport(Self.facts([fresh, .bob], active: "alice", follows: true))
        #expect(before.started(before: false).status == 503)
        let lost = HealthSnapshot.User(name: "alice", isReady: false, reason: "login_required", hasBeenReady: true)
        #expect(HealthReport(Self.facts([lost], active: "alice", follows: true)).started(before: false).status == 200)
        #expect(before.started(before: true).status == 200)
        #expect(HealthReport(Self.facts([fresh, .bob], active: "alice", follows: true, pinned: ["bob"])).hasStarted)
        #expect(HealthReport(Self.facts([], active: nil)).hasStarted)
    }

    private static func facts(
        _ users: [HealthSnapshot.User], active: String?, follows: Bool = false, pinned: [String] = []
    ) -> HealthSnapshot {
        HealthSnapshot(users: users, activeUser: active, followsActiveUser: follows, pinnedUsers: pinned)
    }

    private static func reasons(_ response: OperatorResponse) throws -> [String: String] {
        let checks = try JSON(response.body)["checks"].array
        return Dictionary(uniqueKeysWithValues: checks.map { ($0["name"].string ?? "", $0["reason"].string ?? "") })
    }

    private static func failing(_ response: OperatorResponse) throws -> [String] {
        try JSON(response.body)["checks"].array.filter { $0["ok"].bool == false }.compactMap { $0["name"].string }
    }
}

extension HealthSnapshot.User {
    fileprivate static let alice = Self(name: "alice", isReady: true, reason: "token_valid", hasBeenReady: true)
    fileprivate static let bob = Self(name: "bob", isReady: true, reason: "token_valid", hasBeenReady: true)
    fileprivate static let brokenCarol = Self(
        name: "carol", isReady: false, reason: "login_required", hasBeenReady: false)
}
