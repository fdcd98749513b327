import Foundation
import LanyardEmulator
import TestSupport
import Testing

@testable import LanyardFoundations
@testable import LanyardIdentity
@testable import LanyardSessionInterface
@testable import LanyardSessions
@testable import LanyardSettings
@testable import LanyardVault

/// What a request costs that finds an expired token: turns of queues, and waits for the disk. Queues, store, disk and the client of the
/// identity service are those of the program.
@Suite struct ExpiredTokenCostTests {
    /// Counts what the store has the disk do.
    private final class CountingDisk: StoreDisk {
        private final class Writer: DiskWriter {
            private let writer: any DiskWriter
            private let syncs: Tally

            init(_ writer: any DiskWriter, _ syncs: Tally) { (self.writer, self.syncs) = (writer, syncs) }

            func write(_ bytes: UnsafeRawBufferPointer) throws(DiskError) -> Int { try writer.write(bytes) }

            func sync() throws(DiskError) {
                syncs.add()
                try writer.sync()
            }
        }

        private let disk: SystemDisk
        let fileSyncs = Tally()
        let folderSyncs = Tally()

        init(folder: String) throws { disk = try SystemDisk(folder: folder, makesFolder: true) }

        var owner: UInt32 { disk.owner }
        func inspectFolder() throws(DiskError) -> DiskEntry { try disk.inspectFolder() }
        func read(
            _ name: String, bytesMax: Int, headByteCount: Int, from start: (DiskEntry, [UInt8]) -> Int
        ) throws(DiskError) -> DiskContent? {
            try disk.read(name, bytesMax: bytesMax, headByteCount: headByteCount, from: start)
        }
        func extend(_ name: String, from offset: Int) throws(DiskError) -> any DiskWriter {
            Writer(try disk.extend(name, from: offset), fileSyncs)
        }
        func cut(_ name: String, to byteCount: Int) throws(DiskError) { try disk.cut(name, to: byteCount) }
        func syncFile(_ name: String) throws(DiskError) {
            fileSyncs.add()
            try disk.syncFile(name)
        }
        func create(_ name: String) throws(DiskError) -> any DiskWriter { Writer(try disk.create(name), fileSyncs) }
        func rename(_ name: String, to other: String) throws(DiskError) { try disk.rename(name, to: other) }
        func syncFolder() throws(DiskError) {
            folderSyncs.add()
            try disk.syncFolder()
        }
        func overwrite(_ name: String, at offset: Int, with bytes: [UInt8]) throws(DiskError) {
            try disk.overwrite(name, at: offset, with: bytes)
        }
        func remove(_ name: String) throws(DiskError) { try disk.remove(name) }
        func lock(_ name: String, _ kind: DiskLockKind) throws(DiskError) -> (any DiskLock)? {
            try disk.lock(name, kind)
        }
    }

    /// A store that counts the reads of all users, which come by the clock.
    private final class WatchedStore: SessionStore {
        private let store: SealedStore
        let snapshots = Tally()
        let unlocks = Tally()

        init(_ store: SealedStore) { self.store = store }

        var isMemoryOnly: Bool { store.isMemoryOnly }
        func read(_ user: String, reply: @escaping @Sendable (Result<StoredUser?, StoreError>) -> Void) {
            store.read(user, reply: reply)
        }
        func readAll(reply: @escaping @Sendable ([StoredUser]?) -> Void) {
            snapshots.add()
            store.readAll(reply: reply)
        }
        func commit(
            _ change: StoreChange, reply: @escaping @Sendable (Result<StoreChange.Verdict, StoreError>) -> Void
        ) { store.commit(change, reply: reply) }
        func lock(_ user: String, reply: @escaping @Sendable (StoreLock) -> Void) { store.lock(user, reply: reply) }
        func begin(_ user: String, _ intent: StoreChange, reply: @escaping @Sendable (StoreBeginning) -> Void) {
            store.begin(user, intent, reply: reply)
        }
        func unlock(_ user: String) {
            store.unlock(user)
            unlocks.add()
        }
    }

    /// A shard: it takes what is published in a turn of its own loop.
    private final class Shard: TokenSubscriber {
        let loop: EventLoop
        private let latest = Guarded<AccessToken?>(nil)

        init() throws {
            loop = try EventLoop(label: "test.shard")
            loop.start()
        }

        func publish(_ availability: AccessToken.Availability, for user: UserIndex, heard: HeardRefusals) {
            loop.post { [self] in
                if case .token(let token) = availability { latest.withLock { $0 = token } }
            }
        }

        func publish(_ account: AccountNumber, for user: UserIndex) {}

        func activate(_ user: UserIndex?) {}

        var generation: UInt64 { latest.withLock { $0?.generation ?? 0 } }
    }

    private struct Costs {
        /// Of the shard, the sessions, the store and the service's client.
        let hops: [Int]
        let fileSyncs: Int
        let folderSyncs: Int
    }

    private let bench: SessionServiceBench
    private let disk: CountingDisk
    private let store: WatchedStore
    private let shard: Shard
    private let service: SessionService
    private let loops: [EventLoop]
    /// Of the file with the password, which is read again by the clock.
    private let fileLoop: EventLoop

    init() async throws {
        bench = try await SessionServiceBench(startsService: false)
        disk = try CountingDisk(folder: bench.folder.file("store"))
        let path = try #require(StorePath(bench.folder.file("store/sessions")))
        let key = (0..<4).map { _ in UInt64.random(in: .min ... .max) }
        let secret = key.withUnsafeBytes { Secret(copying: $0) }
        let file = StoreFile(
            path, on: disk, sealing: AESSealing(StoreSecret(.key, secret)), fingerprintKey: KeyedHash.newKey())
        try file.inspect()
        let openFileLock = try file.lockOpenFile(.shared)
        let contents = try file.begin().contents
        let storeLoop = try EventLoop(label: "test.store")
        store = WatchedStore(
            SealedStore(file, openFileLock: openFileLock, unwritten: nil, loop: storeLoop, log: bench.log.logger))
        shard = try Shard()
        fileLoop = try EventLoop(label: "test.files")
        fileLoop.start()
        let login = UserSettings.Login.emailPassword(email: SessionServiceBench.email, password: bench.passwordFile)
        let alice = ManagedUser(
            UserSettings(name: "alice", identity: "demo", login: login), source: .service(bench.identity),
            credential: CredentialFileWatch(on: fileLoop))
        service = try SessionService(
            [alice], store: store, contents: contents, subscribers: [shard], logger: bench.log.logger)
        loops = [shard.loop, service.loop, storeLoop, bench.loop]
    }

    private var alice: SessionStatus { service.report.users[0] }

    private var costs: Costs {
        Costs(
            hops: loops.map(\.postCount), fileSyncs: disk.fileSyncs.value,
            folderSyncs: disk.folderSyncs.value)
    }

    @Test(
        "8 hops between queues until the shard has the next token, one more that gives the lock back, and two writes of the file"
    )
    func costs() async throws {
        service.start()
        // The file of a credential counts when a second read has found the same.
        try await eventually("alice is logged in") {
            fileLoop.pass(FileSettling.settlingDelay)
            return alice.state == .valid
        }
        try bench.gate.set(.refuse)
        try await bench.passToRefresh(of: service)
        try await eventually("the refresh fails") { alice.state == .stale }
        try await bench.pass(.seconds(3600), of: service)
        try await eventually("the token has expired") { alice.state == .unreachable }
        try bench.gate.set(.pass)
        try await eventually("the next attempt is known") { alice.nextRefreshAt != nil }
        let next = try #require(alice.nextRefreshAt)
        let left = (next - service.loop.perform { WallTime.now }).inSeconds
        // What a test passes is posted. So the last second before the attempt passes by itself.
        try await bench.pass(.seconds(max(left - 1, 0)), of: service)
        // What the passed time has begun, such as a read of all users, ends first: the last one takes the others' replies.
        for loop in [fileLoop] + loops.reversed() { loop.perform {} }
        service.loop.perform {}
        let (before, generation) = (costs, shard.generation)
        let (snapshots, unlocks) = (store.snapshots.value, store.unlocks.value)
        service.tokenNeeded(by: UserIndex(0))
        try await eventually("the shard has the next token, and the lock is back") {
            shard.generation > generation && store.unlocks.value > unlocks
        }
        let after = costs
        // A read of all users is the clock's: a call and its reply.
        let reads = store.snapshots.value - snapshots
        let hops = zip(after.hops, before.hops).map(-)
        #expect(hops == [1, 4 + reads, 3 + reads, 1])
        #expect(after.fileSyncs - before.fileSyncs == 2 && after.folderSyncs == before.folderSyncs)
        #expect(alice.state == .valid)
        service.stop()
        shard.loop.stop()
        fileLoop.stop()
        await bench.end()
    }
}
