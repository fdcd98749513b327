import Testing

@testable import LanyardFoundations
@testable import LanyardSessionInterface
@testable import LanyardSessions

/// The generations that follow from what is known of the store.
@Suite struct KnownRecordTests {
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
        var record = KnownRecord()
        #expect(record.next == 1)
        record.rebase(on: Self.user(5))
        #expect(record.next == 6)
        record.current = 8
        #expect(record.next == 9)
        record.current = 0
        record.rebase(onOlder: Self.user(3))
        #expect(record.base.generation == 3 && record.user?.generation == 5 && record.next == 6)
        record.rebase(on: Self.user(9))
        #expect(record.next == 10)
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
        var record = KnownRecord()
        let isFirst = record.recordForeignUser(Self.user(4, session: 9))
        #expect(isFirst && record.base.generation == 4 && !record.isDisplaced)
        let isSecond = record.recordForeignUser(Self.user(5, session: 9))
        #expect(!isSecond && record.base.generation == 5)
        record.forgetForeign()
        #expect(record.foreign == nil && record.base.generation == 5 && record.user == nil)
        record.rebase(on: Self.user(6))
        #expect(record.wasStored)
        let isNews = record.recordForeignUser(Self.user(7, session: 9))
        #expect(isNews && record.isDisplaced && record.base.generation == 6 && record.user?.generation == 6)
        record.forgetUser()
        #expect(record.isDisplaced && record.base.generation == 6 && record.user == nil)
        record.forgetForeign()
        #expect(!record.isDisplaced && record.base.generation == 6)
    }

    @Test("a user that is only to be added was not stored here, whatever the store holds of a former one")
    func provisional() {
        var record = KnownRecord()
        record.isProvisional = true
        record.rebase(on: Self.user(6))
        #expect(!record.wasStored && record.base.generation == 6)
        let isFirst = record.recordForeignUser(Self.user(7, session: 9))
        #expect(isFirst && !record.isDisplaced && record.base.generation == 7)
    }
}
