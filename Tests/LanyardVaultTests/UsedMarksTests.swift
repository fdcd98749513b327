import Foundation
import Glibc
import TestSupport
import Testing

@testable import LanyardFoundations
@testable import LanyardSessionInterface
@testable import LanyardVault

/// `PATH.used`: while the disk is full, a block that exists says which refresh tokens were sent.
@Suite struct UsedMarksTests {
    /// A machine whose store has a session for each user, with the refresh token `NAME-1`.
    private static func machine(_ users: [String] = ["alice"]) throws -> SimulatedDisk {
        let disk = SimulatedDisk()
        let file = try StoreSamples.file(on: disk.process())
        _ = try file.begin()
        for (index, user) in users.enumerated() {
            let session = StoreSamples.session(UInt64(index + 2), refresh: "\(user)-1")
            _ = try file.commit([StoreSamples.saveSession(user, session: session)], now: .now)
        }
        return disk
    }

    private static let at = WallTime(seconds: 1_800_000_000)

    /// The intent of a refresh with the token.
    private static func intent(
        _ user: String = "alice", session: UInt64 = 2, _ token: String = "alice-1", tries: Int = 1,
        after seconds: Int64 = 0, isLastTry: Bool = false
    ) -> StoreChange {
        .storeIntent(
            user: user, identity: "demo", StoredIntent(kind: .refresh, at: at + .seconds(seconds), tries: tries),
            base: SessionVersion(session: session, generation: 1), token: StoreSamples.secret(token),
            isLastTry: isLastTry)
    }

    private static func begun(on disk: SimulatedDisk) throws -> StoreFile {
        let file = try StoreSamples.file(on: disk.process())
        _ = try file.begin()
        return file
    }

    /// The disk is full: the change fails.
    private static func fail(_ change: StoreChange, _ file: StoreFile) {
        #expect(throws: StoreError.self) { _ = try file.commit([change], now: .now) }
    }

    /// What a start finds.
    private static func intent(of user: String = "alice", on disk: SimulatedDisk) throws -> StoredIntent? {
        try OpenedStore.open(try StoreSamples.file(on: disk.process())).contents[user]?.intent
    }

    @Test("a token whose intent a full disk does not take is known as sent after a kill and a loss of power")
    func fullDisk() throws {
        let disk = try Self.machine()
        let file = try Self.begun(on: disk)
        disk.setRoom(0)
        Self.fail(Self.intent(tries: 2), file)
        #expect(file.takeLogEvents() == [.useMarked(user: "alice")])
        disk.losePower()
        #expect(try Self.intent(on: disk) == StoredIntent(kind: .refresh, at: Self.at, tries: 2))
    }

    @Test("without room for the next token either, the mark is of the one that is stored")
    func successorUnsaved() throws {
        let disk = try Self.machine()
        let file = try Self.begun(on: disk)
        disk.setRoom(0)
        Self.fail(Self.intent(), file)
        let next = StoreSamples.session(2, refresh: "alice-2")
        let base = SessionVersion(session: 2, generation: 1)
        Self.fail(StoreSamples.saveSession("alice", session: next, base: base), file)
        // The one in memory is sent, and the store still has the first.
        Self.fail(Self.intent("alice", "alice-2", tries: 2, after: 60), file)
        #expect(try Self.intent(on: disk)?.tries == 2)
    }

    @Test("a response that leaves the token as it was takes the mark away, although the disk is full")
    func closedIntent() throws {
        let disk = try Self.machine()
        let file = try Self.begun(on: disk)
        disk.setRoom(0)
        Self.fail(Self.intent(), file)
        Self.fail(.clearIntent(user: "alice"), file)
        #expect(try Self.intent(on: disk) == nil)
        // With an earlier call without a response that one stays open.
        Self.fail(Self.intent(tries: 2), file)
        Self.fail(.clearIntent(user: "alice"), file)
        #expect(try Self.intent(on: disk)?.tries == 1)
    }

    @Test(
        "the result of a login leaves the mark of a token without a response, and its intent, whether or not the disk is full"
    )
    func closedLogin() throws {
        let disk = try Self.machine()
        let file = try Self.begun(on: disk)
        disk.setRoom(0)
        Self.fail(Self.intent(), file)
        Self.fail(.clearIntent(user: "alice", isOfLogin: true), file)
        #expect(try Self.intent(on: disk)?.tries == 1)
        disk.setRoom(.max)
        _ = try file.commit([.clearIntent(user: "alice", isOfLogin: true)], now: .now)
        #expect(try Self.intent(on: disk)?.tries == 1)
        _ = try file.commit([.clearIntent(user: "alice")], now: .now)
        #expect(try Self.intent(on: disk) == nil)
    }

    /// The disk is full: the first token was exchanged for a second one that is only in memory, and that was sent.
    private static func successorSent(_ file: StoreFile, tries: Int = 1) {
        fail(intent(), file)
        fail(saveSuccessor(), file)
        fail(intent("alice", "alice-2", tries: tries, after: 60), file)
    }

    private static func saveSuccessor(access: String = "second", hasOpenCall: Bool = false) -> StoreChange {
        let session = StoreSamples.session(2, access: access, refresh: "alice-2")
        let change = StoreSamples.saveSession(
            "alice", session: session, base: SessionVersion(session: 2, generation: 1))
        guard case .saveSession(let user, var login, let base) = change else { return change }
        login.hasOpenCall = hasOpenCall
        return .saveSession(user: user, login, base: base)
    }

    private static func response(_ token: String, openCalls: Int = 0) -> StoreChange {
        .clearIntent(user: "alice", sent: StoreChange.SentToken(StoreSamples.secret(token), openCalls: openCalls))
    }

    @Test("a response about the token in memory closes its mark, and leaves the mark of the stored one")
    func successorAnswered() throws {
        for openCalls in 0...1 {
            let disk = try Self.machine()
            let file = try Self.begun(on: disk)
            disk.setRoom(0)
            Self.successorSent(file, tries: 1 + openCalls)
            Self.fail(Self.response("alice-2", openCalls: openCalls), file)
            // A repetition closes no other call.
            Self.fail(Self.response("alice-2", openCalls: openCalls), file)
            #expect(try Self.intent(on: disk) != nil, "the stored token is used")
            disk.setRoom(.max)
            _ = try file.commit([Self.saveSuccessor(hasOpenCall: openCalls > 0)], now: .now)
            #expect(try Self.intent(on: disk)?.tries == (openCalls > 0 ? openCalls : nil))
        }
    }

    @Test("the same with room at that moment: the sealed file still says that its token is used")
    func successorAnsweredWithRoom() throws {
        let disk = try Self.machine()
        let file = try Self.begun(on: disk)
        disk.setRoom(0)
        Self.successorSent(file)
        disk.setRoom(.max)
        _ = try file.commit([Self.response("alice-2")], now: .now)
        #expect(try Self.intent(on: disk)?.tries == 1)
        _ = try file.commit([Self.saveSuccessor()], now: .now)
        #expect(try Self.intent(on: disk) == nil)
        #expect(UsedMarks(try #require(disk.bytes(of: "sessions.used"))).isBlank)
    }

    @Test("a success that keeps the token in memory closes its mark, with room or without", arguments: [true, false])
    func successorKept(hasRoom: Bool) throws {
        let disk = try Self.machine()
        let file = try Self.begun(on: disk)
        disk.setRoom(0)
        Self.successorSent(file)
        if !hasRoom {
            Self.fail(Self.saveSuccessor(access: "third"), file)
            #expect(try Self.intent(on: disk)?.tries == 1, "the stored token is used")
        }
        disk.setRoom(.max)
        _ = try file.commit([Self.saveSuccessor(access: "third")], now: .now)
        #expect(try Self.intent(on: disk) == nil)
        #expect(UsedMarks(try #require(disk.bytes(of: "sessions.used"))).isBlank)
    }

    @Test("the token in memory is stored while a call with it has no response: its mark stays")
    func successorOpen() throws {
        let disk = try Self.machine()
        let file = try Self.begun(on: disk)
        disk.setRoom(0)
        Self.successorSent(file)
        disk.setRoom(.max)
        _ = try file.commit([Self.saveSuccessor(hasOpenCall: true)], now: .now)
        #expect(try Self.intent(on: disk)?.tries == 1)
    }

    @Test("with room again the sealed file has what the mark said, and the mark's place is free")
    func settled() throws {
        let disk = try Self.machine(["alice", "bob"])
        let file = try Self.begun(on: disk)
        disk.setRoom(0)
        Self.fail(Self.intent(), file)
        disk.setRoom(.max)
        // A change of another user folds it in.
        _ = try file.commit(
            [
                .recordRefusal(
                    user: "bob", identity: "demo", CredentialFingerprint(bytes: [UInt8](repeating: 1, count: 32)))
            ], now: .now)
        #expect(UsedMarks(try #require(disk.bytes(of: "sessions.used"))).isBlank)
        #expect(try Self.intent(on: disk)?.tries == 1)
        // The response of a later call closes it for good.
        _ = try file.commit([.clearIntent(user: "alice")], now: .now)
        #expect(try Self.intent(on: disk) == nil)
    }

    @Test("the next refresh token has no mark")
    func nextToken() throws {
        let disk = try Self.machine()
        let file = try Self.begun(on: disk)
        disk.setRoom(0)
        Self.fail(Self.intent(), file)
        disk.setRoom(.max)
        let next = StoreSamples.session(2, refresh: "alice-2")
        _ = try file.commit(
            [StoreSamples.saveSession("alice", session: next, base: SessionVersion(session: 2, generation: 1))],
            now: .now)
        #expect(try Self.intent(on: disk) == nil)
    }

    @Test("two processes mark the tokens of two users, and each mark stays")
    func twoProcesses() throws {
        let disk = try Self.machine(["alice", "bob"])
        let (one, other) = (try Self.begun(on: disk), try Self.begun(on: disk))
        disk.setRoom(0)
        Self.fail(Self.intent(), one)
        Self.fail(Self.intent("bob", session: 3, "bob-1"), other)
        for user in ["alice", "bob"] { #expect(try Self.intent(of: user, on: disk)?.tries == 1, "\(user)") }
        #expect(try one.read()["bob"]?.intent?.tries == 1, "before a refresh, too")
    }

    @Test("more users than places: the file grows while there is room, and each token has its mark")
    func manyUsers() throws {
        let users = (0..<200).map { "u\($0)" }
        let disk = try Self.machine(users)
        let file = try Self.begun(on: disk)
        disk.setRoom(0)
        let changes = users.enumerated().map { Self.intent($1, session: UInt64($0 + 2), "\($1)-1") }
        #expect(throws: StoreError.self) { _ = try file.commit(changes, now: .now) }
        let contents = try OpenedStore.open(try StoreSamples.file(on: disk.process())).contents
        #expect(contents.users.allSatisfy { $0.intent?.tries == 1 })
    }

    @Test("places of tokens that are not stored any more are used again, those of stored ones are not")
    func reuse() throws {
        let disk = try Self.machine()
        let file = try Self.begun(on: disk)
        disk.setRoom(0)
        Self.fail(Self.intent(), file)
        // Each is in memory only, and the store keeps the first.
        for number in 2..<400 { Self.fail(Self.intent("alice", "alice-\(number)", after: Int64(number)), file) }
        #expect(try Self.intent(on: disk)?.tries == 1)
        #expect(disk.bytes(of: "sessions.used")?.count == UsedMarks.pageByteCount)
    }

    @Test(
        "a file system that needs room to overwrite: the log says once that the token is not marked",
        arguments: [ENOSPC, EIO])
    func copyOnWrite(_ code: CInt) throws {
        let disk = try Self.machine()
        let process = disk.process { step, _, _ in [.overwrite, .create, .extend].contains(step) ? .fails(code) : .done
        }
        let file = try StoreSamples.file(on: process)
        _ = try file.begin()
        for _ in 0..<3 { Self.fail(Self.intent(), file) }
        let events = file.takeLogEvents()
        guard case .useUnmarked("alice", let error)? = events.first, events.count == 1 else {
            Issue.record("\(events)")
            return
        }
        #expect(error.kind == .system(code) && error.message.contains("overwrite"))
        #expect(try Self.intent(on: disk) == nil)
    }

    @Test("a process that dies while it marks a token leaves a store that opens, with the mark or without")
    func crash() throws {
        for outcome in [SimulatedDisk.Outcome.diesBefore, .diesAfter] {
            let disk = try Self.machine()
            let process = disk.process { step, _, _ in step == .overwrite ? outcome : .done }
            let file = try StoreSamples.file(on: process)
            _ = try file.begin()
            disk.setRoom(0)
            Self.fail(Self.intent(), file)
            disk.losePower()
            #expect(try Self.intent(on: disk)?.tries == (outcome == .diesAfter ? 1 : nil))
        }
    }

    @Test("a token that never rotates, and a login, have no mark")
    func others() throws {
        let disk = try Self.machine()
        let file = try Self.begun(on: disk)
        disk.setRoom(0)
        for kind in [SessionCall.Kind.refresh, .login] {
            let intent = StoredIntent(kind: kind, at: Self.at, tries: kind == .login ? 0 : 1)
            Self.fail(
                .storeIntent(
                    user: "alice", identity: "demo", intent, base: SessionVersion(session: 2, generation: 1)), file)
        }
        #expect(try Self.intent(on: disk) == nil && file.takeLogEvents().isEmpty)
    }

    private static let file = CredentialFingerprint(bytes: [UInt8](repeating: 7, count: 32)).spent

    /// The login with a refresh token from a file has begun the session, which a full disk does not take.
    private static func fileLogin(refresh: String = "alice-2") -> StoreChange {
        let login = StoreChange.StoredLogin(
            identity: "demo", session: StoreSamples.session(8, refresh: refresh), accountID: nil, provider: nil,
            isAdded: false, refused: file)
        return .saveSession(user: "alice", login, base: SessionVersion(session: 2, generation: 1))
    }

    @Test(
        "a refresh token from a file that has served its only login while the disk was full is known as spent after a kill",
        arguments: [true, false])
    func credential(isLogin: Bool) throws {
        let disk = try Self.machine(["alice", "bob"])
        let file = try Self.begun(on: disk)
        disk.setRoom(0)
        let refusal = StoreChange.recordRefusal(user: "alice", identity: "demo", Self.file, endedVersion: nil)
        Self.fail(isLogin ? Self.fileLogin() : refusal, file)
        #expect(file.takeLogEvents() == [.useMarked(user: "alice", isCredential: true)])
        disk.losePower()
        let users = try OpenedStore.open(try StoreSamples.file(on: disk.process())).contents
        #expect(users["alice"]?.refused == Self.file && users["bob"]?.refused == nil)
        // The former session is still the one that is stored.
        #expect(users["alice"]?.session?.refresh == StoreSamples.secret("alice-1") && users["alice"]?.intent == nil)
        // With room again the sealed file says it.
        disk.setRoom(.max)
        _ = try Self.begun(on: disk).commit([Self.fileLogin()], now: .now)
        #expect(UsedMarks(try #require(disk.bytes(of: "sessions.used"))).isBlank)
        #expect(try OpenedStore.open(try StoreSamples.file(on: disk.process())).contents["alice"]?.refused == Self.file)
    }

    @Test("a refused credential has no mark, and a user that the store does not have yet cannot have one")
    func otherCredentials() throws {
        let disk = try Self.machine(["bob"])
        let file = try Self.begun(on: disk)
        disk.setRoom(0)
        let refused = CredentialFingerprint(bytes: [UInt8](repeating: 7, count: 32), code: "invalid_grant")
        Self.fail(.recordRefusal(user: "bob", identity: "demo", refused, endedVersion: nil), file)
        #expect(file.takeLogEvents().isEmpty)
        Self.fail(.recordRefusal(user: "alice", identity: "demo", Self.file, endedVersion: nil), file)
        guard case .useUnmarked("alice", _)? = file.takeLogEvents().first else { throw TestFailure("no line") }
        #expect(UsedMarks(try #require(disk.bytes(of: "sessions.used"))).isBlank)
    }

    @Test("a last try that cannot be stored is not made, and marks nothing")
    func lastTry() throws {
        let disk = try Self.machine()
        let file = try Self.begun(on: disk)
        disk.setRoom(0)
        Self.fail(Self.intent(isLastTry: true), file)
        #expect(try Self.intent(on: disk) == nil && file.takeLogEvents().isEmpty)
        disk.setRoom(.max)
        _ = try file.commit([Self.intent(isLastTry: true)], now: .now)
        let stored = try OpenedStore.open(try StoreSamples.file(on: disk.process())).contents["alice"]
        #expect(stored?.session?.hasMadeLastTry == true)
    }

    @Test("no last try is made once an older file has replaced a newer one: another process's successor may be lost")
    func lastTryAfterRollback() throws {
        let folder = try TemporaryFolder()
        let path = folder.file("sessions")
        let file = try StoreSamples.file(path)
        _ = try file.begin()
        let session = StoreSamples.session(2, refresh: "alice-1")
        _ = try file.commit([StoreSamples.saveSession("alice", session: session)], now: .now)
        // A backup.
        let old = try Data(contentsOf: URL(filePath: path))
        // The other process renews the session, and then the old file is put back.
        let next = StoreSamples.session(2, refresh: "alice-2")
        let base = SessionVersion(session: 2, generation: 1)
        _ = try StoreSamples.file(path).commit(
            [StoreSamples.saveSession("alice", session: next, base: base)], now: .now)
        _ = try file.read()
        try old.write(to: URL(filePath: path))
        let verdict = try file.commit([Self.intent(isLastTry: true)], now: .now).first
        guard case .overtaken(let user?)? = verdict else { throw TestFailure("\(verdict as Any)") }
        #expect(user.session?.hasMadeLastTry == false)
        // Other changes are made.
        guard case .stored? = try file.commit([Self.intent()], now: .now).first else { throw TestFailure("no refresh") }
    }

    @Test("a record has the bytes of the page: hash, tries, kind, time, fingerprint")
    func record() throws {
        let hash = UsedMarks.hash(of: StoreSamples.secret("one"), key: StoreSamples.fingerprintKey)
        let record = UsedMarks.record(
            hash, UsedMarks.Mark(tries: 0x0102, at: WallTime(nanoseconds: 0x0304_0506_0708_090a)))
        #expect(record.count == 64 && Array(record[20..<32]) == [1, 2, 0, 0, 3, 4, 5, 6, 7, 8, 9, 10])
        #expect(record[32...].allSatisfy { $0 == 0 })
        // Made by another program from docs/reference/store.md.
        #expect(Array(record.prefix(20)) == StoreSamples.bytes(["4d5699fedfa136177c3589457ac1790df1e6aadf"]))
        let marks = UsedMarks(record + UsedMarks.blankRecord)
        #expect(marks.place(of: hash) == 0 && marks.mark(at: 0).tries == 0x0102 && marks.freePlace(besides: [0]) == 1)
        let own = UsedMarks.hash(ofCredentialOf: "alice", key: StoreSamples.fingerprintKey)
        #expect(own == StoreSamples.bytes(["6e9cdfb456493ecfa87f848ba3e32a3fc3edaf80"]))
        let mark = UsedMarks.Mark(tries: 0, at: WallTime(nanoseconds: 1), credential: [UInt8](40..<72))
        let other = UsedMarks.record(own, mark)
        #expect(Array(other[20...]) == [0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1] + Array(40..<72))
        #expect(UsedMarks(other).mark(at: 0) == mark)
    }

    @Test("the file is private, and one that others can read is none")
    func mode() throws {
        let folder = try TemporaryFolder()
        let path = folder.file("sessions")
        let file = try StoreSamples.file(path)
        _ = try file.begin()
        _ = try file.commit(
            [StoreSamples.saveSession("alice", session: StoreSamples.session(2, refresh: "alice-1"))], now: .now)
        var status = stat()
        #expect(lstat(path + ".used", &status) == 0 && status.st_mode & 0o7777 == 0o600 && status.st_blocks > 0)
        #expect(status.st_size == UsedMarks.pageByteCount)
        #expect(chmod(path + ".used", 0o644) == 0)
        _ = try file.commit([.clearIntent(user: "alice")], now: .now, tries: true)
        #expect(lstat(path + ".used", &status) == 0 && status.st_mode & 0o7777 == 0o600, "it is made again")
    }

    @Test("a full file system takes the mark in its block", .enabled(if: getuid() == 0, "needs root, to mount"))
    func fullFileSystem() throws {
        let folder = try TemporaryFolder()
        let small = folder.file("small")
        mkdir(small, 0o700)
        guard mount("lanyard", small, "tmpfs", 0, "size=64k,mode=0700") == 0 else { return }
        defer { umount2(small, CInt(MNT_DETACH)) }
        let file = try StoreSamples.file(small + "/sessions")
        _ = try file.begin()
        // A record that fits into the file's last block would need no room.
        let session = StoreSamples.session(2, access: String(repeating: "a", count: 5000), refresh: "alice-1")
        _ = try file.commit([StoreSamples.saveSession("alice", session: session)], now: .now)
        let filler = open(small + "/filler", O_WRONLY | O_CREAT | O_CLOEXEC, 0o600)
        let page = [UInt8](repeating: 1, count: 4096)
        while write(filler, page, page.count) > 0 {}
        close(filler)
        _ = file.takeLogEvents()
        Self.fail(Self.intent(), file)
        #expect(file.takeLogEvents() == [.useMarked(user: "alice")])
        let again = try OpenedStore.open(try StoreSamples.file(small + "/sessions"))
        #expect(again.contents["alice"]?.intent?.tries == 1)
    }
}
