import Testing

@testable import LanyardFoundations
@testable import LanyardSessionInterface
@testable import LanyardSessions

/// The generations that follow from what is known of the store.
@Suite struct StoredViewTests {
    private static func user(_ generation: Generation, session: UInt64 = 7) -> StoredUser {
        var user = StoredUser(name: "alice", identity: "demo")
        user.generation = generation
        let secret = Secret(capacity: 1) { _ in 1 }
        user.status = .active(
            StoredSession(
                id: session, access: secret, refresh: nil, refreshExpiry: nil, issuedAt: WallTime(seconds: 1),
                issuedAtBoot: BootInstant(boot: "", instant: .past), lifetime: .seconds(1)))
        return user
    }

    @Test(
        "the next generation is above the store's, above that of unsaved tokens, and above what an older file has lost")
    func next() {
        var view = StoredView()
        #expect(view.next == 1)
        view.rebase(on: Self.user(5))
        #expect(view.next == 6)
        view.current = 8
        #expect(view.next == 9)
        view.current = 0
        view.rebase(onOlder: Self.user(3))
        #expect(view.base.generation == 3 && view.user?.generation == 5 && view.next == 6)
        view.rebase(on: Self.user(9))
        #expect(view.next == 10)
    }

    @Test("a version is older or newer within one session only")
    func order() {
        func version(_ session: UInt64, _ generation: Generation) -> SessionVersion {
            SessionVersion(session: session, generation: generation)
        }
        #expect(version(7, 5).order(to: version(7, 5)) == .same)
        #expect(version(7, 4).order(to: version(7, 5)) == .older)
        #expect(version(7, 6).order(to: version(7, 5)) == .newer)
        #expect(version(8, 4).order(to: version(7, 5)) == .otherSession)
        #expect(version(0, 4).order(to: version(0, 5)) == .otherSession)
        #expect(SessionVersion.absent.order(to: .absent) == .same)
    }

    @Test("a foreign user is the base only while this one was never stored")
    func foreign() {
        var view = StoredView()
        let isFirst = view.note(foreign: Self.user(4, session: 9))
        #expect(isFirst && view.base.generation == 4 && !view.isDisplaced)
        let isSecond = view.note(foreign: Self.user(5, session: 9))
        #expect(!isSecond && view.base.generation == 5)
        view.forgetForeign()
        #expect(view.foreign == nil && view.base.generation == 5 && view.user == nil)
        view.rebase(on: Self.user(6))
        #expect(view.wasStored)
        let isNews = view.note(foreign: Self.user(7, session: 9))
        #expect(isNews && view.isDisplaced && view.base.generation == 6 && view.user?.generation == 6)
        view.forgetUser()
        #expect(view.isDisplaced && view.base.generation == 6 && view.user == nil)
        view.forgetForeign()
        #expect(!view.isDisplaced && view.base.generation == 6)
    }

    @Test("a user that is only to be added was not stored here, whatever the store holds of a former one")
    func provisional() {
        var view = StoredView()
        view.isProvisional = true
        view.rebase(on: Self.user(6))
        #expect(!view.wasStored && view.base.generation == 6)
        let isFirst = view.note(foreign: Self.user(7, session: 9))
        #expect(isFirst && !view.isDisplaced && view.base.generation == 7)
    }
}
