import Dispatch
import Foundation
import Glibc
import Logging
import TestSupport
import Testing

@testable import LanyardFoundations
@testable import LanyardSessionInterface
@testable import LanyardSettings
@testable import LanyardVault

/// The store as sessions use it: on a queue of its own.
@Suite struct SealedStoreTests {
    private let folder: TemporaryFolder
    private let path: String

    init() throws {
        folder = try TemporaryFolder()
        path = folder.file("sessions")
    }

    private static let log = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }

    private func store() throws -> SealedStore {
        try #require(try OpenedStore.open(try StoreSamples.file(path)).store(log: Self.log) as? SealedStore)
    }

    private static func store(on disk: any StoreDisk) throws -> SealedStore {
        try #require(try OpenedStore.open(try StoreSamples.file(on: disk)).store(log: log) as? SealedStore)
    }

    private static func commit(_ store: SealedStore, _ change: StoreChange) async -> Result<
        StoreChange.Verdict, StoreError
    > {
        await withCheckedContinuation { done in store.commit(change) { done.resume(returning: $0) } }
    }

    private static func read(_ store: SealedStore, _ user: String) async throws -> StoredUser? {
        try await withCheckedContinuation { done in store.read(user) { done.resume(returning: $0) } }.get()
    }

    private static func lock(_ store: SealedStore, _ user: String) async -> StoreLock {
        await withCheckedContinuation { done in store.lock(user) { done.resume(returning: $0) } }
    }

    private func contents() throws -> StoreContents { try StoreSamples.file(path).read() }

    @Test("everything is answered once, in the order in which it was asked")
    func order() async throws {
        let store = try store()
        let replies = Guarded<[String]>([])
        let count = 40
        for index in 0..<count {
            store.commit(StoreSamples.saveSession("user-\(index)", session: StoreSamples.session(1))) { _ in
                replies.withLock { $0.append("commit \(index)") }
            }
            store.read("user-\(index)") { result in
                let isThere = (try? result.get()) != nil
                replies.withLock { $0.append("read \(index) \(isThere)") }
            }
        }
        try await eventually("all is answered") { replies.withLock { $0.count } == 2 * count }
        #expect(replies.withLock { $0 } == (0..<count).flatMap { ["commit \($0)", "read \($0) true"] })
        store.close()
    }

    @Test("changes that wait behind one another are written together")
    func batches() async throws {
        let store = try store()
        let completed = Guarded(0)
        for index in 0..<500 {
            store.commit(StoreSamples.saveSession("user-\(index)", session: StoreSamples.session(1))) { result in
                if case .success(.stored(.some)) = result { completed.withLock { $0 += 1 } }
            }
        }
        try await eventually("all is stored") { completed.withLock { $0 } == 500 }
        let written = try contents().writes
        #expect(written >= 8 && written < 100, "\(written) writes")
        #expect(try contents().users.count == 500)
        store.close()
    }

    @Test(
        "calls that begin behind one another are stored by a few writes, each with its user as it was before, and locked"
    )
    func beginnings() async throws {
        let store = try store()
        let completed = Guarded(0)
        for index in 0..<200 {
            store.commit(StoreSamples.saveSession("user-\(index)", session: StoreSamples.session(1))) { _ in
                completed.withLock { $0 += 1 }
            }
        }
        try await eventually("all is stored") { completed.withLock { $0 } == 200 }
        let before = try contents().writes
        let version = try #require(try contents()["user-0"]).version
        let replies = Guarded<[String]>([])
        for index in (0..<200).flatMap({ [$0, $0] }) {
            let name = "user-\(index)"
            let intent = StoreChange.storeIntent(
                user: name, identity: "demo",
                StoredIntent(kind: .refresh, at: WallTime(seconds: 1_800_000_000), tries: 1), base: version)
            store.begin(name, intent) { result in
                let word =
                    switch result {
                    case .busy: "busy"
                    case .attempted(.begun(let user?, before: let former?, ended: _), lockError: nil):
                        user.intent != nil && former.intent == nil && former.name == name ? "begun" : "wrong"
                    case .attempted: "other"
                    }
                replies.withLock { $0.append(word) }
            }
        }
        try await eventually("all have begun") { replies.withLock { $0.count } == 400 }
        #expect(replies.withLock { $0.count { $0 == "begun" } } == 200, "\(replies.withLock { Set($0) })")
        #expect(replies.withLock { $0.count { $0 == "busy" } } == 200, "the second of each user")
        let written = try contents().writes - before
        #expect(written >= 7 && written < 60, "\(written) writes")
        #expect(try contents().users.allSatisfy { $0.intent != nil })
        store.close()
    }

    @Test("a user's lock excludes the other process, another user's does not, and unlocking gives it back")
    func userLocks() async throws {
        let (one, other) = (try store(), try store())
        #expect(await Self.lock(one, "alice") == .taken)
        #expect(await Self.lock(other, "alice") == .busy)
        #expect(await Self.lock(one, "alice") == .busy)
        #expect(await Self.lock(other, "lock") == .taken)
        #expect(await Self.lock(one, "open") == .taken)
        guard
            case .success = await Self.commit(one, StoreSamples.saveSession("alice", session: StoreSamples.session(1)))
        else {
            Issue.record("users' locks stand in the store's way")
            return
        }
        one.unlock("alice")
        one.unlock("alice")
        one.unlock("nobody")
        _ = try await Self.read(one, "alice")
        #expect(await Self.lock(other, "alice") == .taken)
        one.close()
        #expect(await Self.lock(other, "open") == .taken)
        other.close()
    }

    @Test("a lock that cannot be had for another reason is told, and no call waits for it")
    func lockFails() async throws {
        let store = try store()
        mkdir(folder.file("sessions.alice.lock"), 0o700)
        guard case .failed(let message) = await Self.lock(store, "alice") else {
            Issue.record("a folder was locked")
            return
        }
        #expect(message.contains("sessions.alice.lock"))
        store.close()
    }

    @Test("while another process writes, a change waits its turn, and is made then")
    func contention() async throws {
        let disk = SimulatedDisk()
        let tries = Guarded(0)
        let process = disk.process { step, name, _ in
            if step == .lock, name == "sessions.lock" { tries.withLock { $0 += 1 } }
            return .done
        }
        let store = try Self.store(on: process)
        let lock = try #require(try disk.process().lock("sessions.lock", .exclusive))
        let before = tries.withLock { $0 }
        let reply = Guarded<Result<StoreChange.Verdict, StoreError>?>(nil)
        store.commit(StoreSamples.saveSession("alice", session: StoreSamples.session(1))) { result in
            reply.withLock { $0 = result }
        }
        try await eventually("it has tried three times") { tries.withLock { $0 } >= before + 3 }
        #expect(reply.withLock { $0 } == nil)
        lock.release()
        try await eventually("the change is made") { reply.withLock { $0 } != nil }
        #expect(try StoreSamples.file(on: disk.process()).read()["alice"] != nil)
        #expect(!store.isFailing)
        store.close()
    }

    @Test("a disk that fills up is told by the check, a write that works again clears it, and what waited is stored")
    func failing() async throws {
        let disk = SimulatedDisk()
        let store = try Self.store(on: disk.process())
        disk.setRoom(0)
        let change = StoreSamples.saveSession("alice", session: StoreSamples.session(1))
        guard case .failure(let error) = await Self.commit(store, change) else {
            Issue.record("a full disk took a write")
            return
        }
        #expect(error.kind == .system(ENOSPC) && store.isFailing)
        disk.setRoom(.max)
        guard case .success(.stored(.some)) = await Self.commit(store, change) else {
            Issue.record("the second write failed")
            return
        }
        #expect(!store.isFailing)
        store.close()
    }

    @Test(
        "a user whom a failing disk cannot make safe is still read, and the check tells of it until a write succeeds"
    )
    func unsyncedRead() async throws {
        let disk = SimulatedDisk()
        let isFailing = Guarded(false)
        let process = disk.process { step, _, _ in
            [.sync, .syncFile, .syncFolder].contains(step) && isFailing.withLock { $0 } ? .fails(EIO) : .done
        }
        let store = try Self.store(on: process)
        // Another process dies between its write and its fsync.
        let other = disk.process { step, _, _ in step == .sync ? .diesBefore : .done }
        let change = StoreSamples.saveSession("alice", session: StoreSamples.session(1))
        #expect(throws: StoreError.self) { try StoreSamples.file(on: other).commit([change], now: .now) }
        isFailing.withLock { $0 = true }
        #expect(try await Self.read(store, "alice")?.session?.id == 1)
        #expect(store.isFailing)
        isFailing.withLock { $0 = false }
        guard case .success = await Self.commit(store, .clearIntent(user: "alice")) else {
            Issue.record("the write failed")
            return
        }
        #expect(!store.isFailing)
        disk.losePower()
        #expect(try StoreSamples.file(on: disk.process()).read()["alice"]?.session?.id == 1)
        store.close()
    }

    @Test("a change that the store held already is no sign that writing works; the first file that is replaced is")
    func falseRecovery() async throws {
        let disk = SimulatedDisk()
        let store = try Self.store(on: disk.process())
        disk.setRoom(0)
        let change = StoreSamples.saveSession("alice", session: StoreSamples.session(1))
        guard case .failure = await Self.commit(store, change) else {
            Issue.record("a full disk took a write")
            return
        }
        // Nothing is to be written, so it is answered well, and nothing is proven.
        for _ in 0..<3 {
            guard case .success = await Self.commit(store, .clearIntent(user: "bob")) else {
                Issue.record("a change that is none failed")
                return
            }
            #expect(store.isFailing)
        }
        disk.setRoom(.max)
        guard case .success = await Self.commit(store, .clearIntent(user: "bob")) else {
            Issue.record("a change that is none failed")
            return
        }
        #expect(!store.isFailing)
        store.close()
    }

    @Test("a store that could not be written at the start fails until the next look finds that it can")
    func failingAtStart() async throws {
        let disk = SimulatedDisk()
        let first = try StoreSamples.file(on: disk.process())
        _ = try first.begin()
        _ = try first.commit([StoreSamples.saveSession("alice", session: StoreSamples.session(1))], now: .now)
        let isFull = Guarded(true)
        let process = disk.process { step, _, _ in
            [.create, .extend].contains(step) && isFull.withLock { $0 } ? .fails(ENOSPC) : .done
        }
        let store = try Self.store(on: process)
        func names() async -> [String]? {
            await withCheckedContinuation { done in store.readAll { done.resume(returning: $0) } }?.map(\.name)
        }
        #expect(store.isFailing)
        #expect(await names() == ["alice"])
        #expect(store.isFailing)
        isFull.withLock { $0 = false }
        #expect(await names() == ["alice"])
        #expect(!store.isFailing)
        store.close()
    }

    @Test("all users are read at once, another process's as well; none is known where the file cannot be read")
    func readAll() async throws {
        let store = try store()
        func names() async -> [String]? {
            await withCheckedContinuation { done in store.readAll { done.resume(returning: $0) } }?.map(\.name).sorted()
        }
        #expect(await names() == [])
        _ = await Self.commit(store, StoreSamples.saveSession("alice", session: StoreSamples.session(1)))
        _ = try StoreSamples.file(path).commit(
            [StoreSamples.saveSession("bob", session: StoreSamples.session(2))], now: .now)
        #expect(await names() == ["alice", "bob"])
        let whole = try Data(contentsOf: URL(fileURLWithPath: path))
        var damaged = whole
        damaged[whole.count - 1] ^= 1
        try damaged.write(to: URL(fileURLWithPath: path))
        #expect(await names() == nil)
        try whole.write(to: URL(fileURLWithPath: path))
        #expect(await names() == ["alice", "bob"])
        store.close()
        #expect(await names() == nil)
    }

    @Test("closing answers what was asked before, frees every lock, and refuses what comes later")
    func closing() async throws {
        let store = try store()
        #expect(await Self.lock(store, "alice") == .taken)
        let completed = Guarded(0)
        for index in 0..<20 {
            store.commit(StoreSamples.saveSession("user-\(index)", session: StoreSamples.session(1))) { result in
                if case .success = result { completed.withLock { $0 += 1 } }
            }
        }
        store.close()
        #expect(completed.withLock { $0 } == 20)
        #expect(await Self.lock(store, "bob") == .failed("the store is closed"))
        guard case .failure = await Self.commit(store, .clearIntent(user: "alice")) else {
            Issue.record("a closed store took a write")
            return
        }
        let disk = try SystemDisk(folder: folder.path, makesFolder: false)
        #expect(try disk.lock("sessions.alice.lock", .exclusive) != nil)
        #expect(try disk.lock("sessions.open", .exclusive) != nil)
    }

    @Test(
        "a store that is open cannot be rekeyed; one that no process has open can, and its processes then need the new key"
    )
    func rekey() async throws {
        let old = try folder.write("old", String(repeating: "a", count: 32))
        let new = try folder.write("new", "correct horse\n")
        let settings = StoreSettings.file(path: path, sealedBy: .key(old))
        let store = try #require(try OpenedStore.open(settings).store(log: Self.log) as? SealedStore)
        _ = await Self.commit(store, StoreSamples.saveSession("alice", session: StoreSamples.session(1)))
        func rekey() -> StoreError? {
            do throws(StoreError) {
                try OpenedStore.rekey(path: path, from: .key(old), to: .passphrase(new))
                return nil
            } catch {
                return error
            }
        }
        let refused = rekey()
        #expect(refused?.kind == .busy && refused?.message.contains("is in use") == true)
        store.close()
        #expect(rekey() == nil)
        #expect(throws: StoreError.self) { try OpenedStore.open(settings) }
        let reopened = try OpenedStore.open(.file(path: path, sealedBy: .passphrase(new)))
        #expect(reopened.contents["alice"]?.session?.id == 1)
    }

    @Test("two processes and sixteen users at once lose no user's newest session")
    func concurrency() async throws {
        let stores = [try store(), try store()]
        let rounds = 30
        await withTaskGroup(of: Void.self) { group in
            for (place, store) in stores.enumerated() {
                for user in 0..<8 {
                    group.addTask {
                        let name = "user-\(place)-\(user)"
                        var base = SessionVersion(session: 0, generation: 0)
                        for round in 1...rounds {
                            let session = StoreSamples.session(UInt64(user + 1), access: "\(name) \(round)")
                            let verdict = await Self.commit(
                                store, StoreSamples.saveSession(name, session: session, base: base))
                            guard case .success(.stored(let stored?)) = verdict else {
                                Issue.record("\(name), round \(round): \(verdict)")
                                return
                            }
                            base = stored.version
                        }
                    }
                }
            }
        }
        let contents = try contents()
        #expect(contents.users.count == 16)
        for user in contents.users {
            #expect(user.generation == Generation(UInt64(rounds)))
            #expect(StoreSamples.text(user.session?.access) == "\(user.name) \(rounds)")
        }
        for store in stores { store.close() }
    }

    @Test("two processes that change one user: the later learns of the earlier")
    func overtaken() async throws {
        let (one, other) = (try store(), try store())
        let noSession = SessionVersion(session: 0, generation: 0)
        let first = await Self.commit(
            one, StoreSamples.saveSession("alice", session: StoreSamples.session(1), base: noSession))
        let second = await Self.commit(
            other, StoreSamples.saveSession("alice", session: StoreSamples.session(2), base: noSession))
        guard case .success(.stored(let stored)) = first, case .success(.overtaken(let by)) = second else {
            Issue.record("\(first), \(second)")
            return
        }
        #expect(stored == by)
        one.close()
        other.close()
    }
}
