import Foundation
import Glibc
import TestSupport
import Testing

@testable import LanyardFoundations
@testable import LanyardSessionInterface
@testable import LanyardVault

/// The sealed file on a real disk.
@Suite struct StoreFileTests {
    private let folder: TemporaryFolder
    private let path: String

    init() throws {
        folder = try TemporaryFolder()
        path = folder.file("sessions")
    }

    private func bytes() throws -> [UInt8] {
        var status = stat()
        // A pipe would be read for ever.
        guard stat(path, &status) == 0, status.st_mode & S_IFMT == S_IFREG else { throw TestFailure("no file") }
        return Array(try Data(contentsOf: URL(filePath: path)))
    }

    private func write(_ bytes: [UInt8]) throws { try Data(bytes).write(to: URL(filePath: path)) }

    /// A store with alice in it.
    private func begun() throws -> StoreFile {
        let file = try StoreSamples.file(path)
        _ = try file.begin()
        _ = try file.commit([StoreSamples.saveSession("alice", session: StoreSamples.session(1))], now: .now)
        return file
    }

    private func error(_ body: () throws(StoreError) -> Void) -> StoreError? {
        do throws(StoreError) {
            try body()
            return nil
        } catch {
            return error
        }
    }

    /// Of a file too large to be read what it is told by; the bytes of any other, none of what is no file.
    private func state() throws -> [UInt8] {
        var status = stat()
        guard stat(path, &status) == 0, status.st_mode & S_IFMT == S_IFREG else { return [] }
        guard status.st_size > 1 << 20 else { return try bytes() }
        let (size, changed) = (status.st_size, status.st_mtim)
        return Array("\(size) \(status.st_blocks) \(status.st_ino) \(changed.tv_sec).\(changed.tv_nsec)".utf8)
    }

    /// What opening says; the file must be as it was, and nothing else in the folder.
    private func refusal(key: UInt8 = 1) throws -> StoreError? {
        let before = (try state(), try FileManager.default.contentsOfDirectory(atPath: folder.path).sorted())
        let file = try StoreSamples.file(path, key: key)
        let error = error { () throws(StoreError) in _ = try OpenedStore.open(file) }
        let after = (try state(), try FileManager.default.contentsOfDirectory(atPath: folder.path).sorted())
        #expect(before == after)
        #expect(error?.message.contains(folder.path) == true, "\(error?.message ?? "it was opened")")
        return error
    }

    @Test("a missing file is an empty store, made at once with mode 0600, and comes back with what was written")
    func roundTrip() throws {
        umask(0o077)
        let file = try StoreSamples.file(path)
        let (contents, unwritten) = try file.begin()
        #expect(contents.users == [] && contents.writes == 1 && unwritten == nil)
        #expect(file.takeLogEvents() == [.created])
        var status = stat()
        #expect(stat(path, &status) == 0 && status.st_mode & 0o7777 == 0o600)
        let session = StoreSamples.session(1)
        let verdicts = try file.commit([StoreSamples.saveSession("alice", session: session)], now: .now)
        guard case .stored(let user?) = verdicts.first else {
            Issue.record("\(verdicts)")
            return
        }
        #expect(user.session == session && user.generation == 1)
        let again = try StoreSamples.file(path)
        try again.inspect()
        let reopened = try again.begin().contents
        #expect(reopened["alice"] == user && reopened.writes == 2)
        #expect(reopened.fingerprintKey == StoreSamples.fingerprintKey)
        #expect(again.takeLogEvents() == [])
    }

    @Test("the file holds no byte of a token or a name")
    func opaque() throws {
        _ = try begun()
        let text = String(decoding: try bytes(), as: UTF8.self)
        for word in ["access", "refresh", "alice", "demo"] { #expect(!text.contains(word)) }
    }

    @Test(
        "a folder that others may enter, and a file with a wider mode than 0600, are refused",
        arguments: [0o755, 0o750, 0o710, 0o701])
    func modes(_ mode: Int) throws {
        _ = try begun()
        chmod(folder.path, mode_t(mode))
        let refused = try refusal()
        #expect(refused?.kind == .unsafeMode && refused?.message.contains("chmod 700 \(folder.path)") == true)
        chmod(folder.path, 0o700)
        chmod(path, mode_t(mode & 0o677))
        #expect(try refusal()?.kind == .unsafeMode)
        chmod(path, 0o600)
        _ = try OpenedStore.open(try StoreSamples.file(path))
    }

    @Test(
        "a file or folder of another user is refused, also by root",
        .enabled(if: getuid() == 0, "needs root, to give files away"))
    func owners() throws {
        _ = try begun()
        chown(path, 65534, 65534)
        let refused = try refusal()
        #expect(refused?.kind == .foreignOwner && refused?.message.contains("uid 65534") == true)
        chown(path, 0, 0)
        chown(folder.path, 65534, 65534)
        #expect(try refusal()?.kind == .foreignOwner)
        chown(folder.path, 0, 0)
    }

    @Test("a symbolic link, a folder and a pipe are no store")
    func kinds() throws {
        let elsewhere = folder.file("elsewhere")
        try Data(StoreVectors.keySealed).write(to: URL(filePath: elsewhere))
        symlink(elsewhere, path)
        #expect(try refusal()?.kind == .notRegular)
        unlink(path)
        mkdir(path, 0o700)
        #expect(try refusal()?.kind == .notRegular)
        rmdir(path)
        mkfifo(path, 0o600)
        #expect(try refusal()?.kind == .notRegular)
    }

    @Test(
        "a symbolic link to the folder is followed if it is our own, and refused if it is another user's",
        .enabled(if: getuid() == 0))
    func folderLinks() throws {
        _ = try begun()
        let link = "/tmp/lanyard-link-\(UInt64.random(in: 0 ... .max))"
        #expect(symlink(folder.path, link) == 0)
        defer { unlink(link) }
        _ = try OpenedStore.open(try StoreSamples.file(link + "/sessions"))
        lchown(link, 65534, 65534)
        #expect(throws: DiskError(ELOOP, "following another user's symbolic link")) {
            try SystemDisk(folder: link, makesFolder: false)
        }
    }

    @Test("wrong key, damage, truncation and a later version are told apart, with path and remedy")
    func unreadable() throws {
        _ = try begun()
        let whole = try bytes()
        #expect(try refusal(key: 2)?.kind == .wrongKey)
        var flipped = whole
        flipped[whole.count / 2] ^= 1
        try write(flipped)
        #expect(try refusal()?.message.contains("is damaged: it is not as it was written") == true)
        try write(Array(whole.prefix(150)))
        #expect(try refusal()?.message.contains("is damaged: it is truncated") == true)
        try write([])
        #expect(try refusal()?.message.contains("is damaged: it is truncated") == true)
        try write(Array("users: []".utf8))
        #expect(try refusal()?.message.contains("is damaged: it is no store") == true)
        var later = whole
        later[9] = 9
        try write(later)
        let newer = try refusal()
        #expect(
            newer?.kind == .newerVersion && newer?.message.contains("its format is 9, this release reads 2") == true)
        try write(whole)
        #expect(try OpenedStore.open(try StoreSamples.file(path)).contents["alice"] != nil)
    }

    @Test("a file of many megabytes is refused unread")
    func huge() throws {
        try folder.write("sessions", "")
        #expect(truncate(path, 1 << 40) == 0)
        #expect(try refusal()?.message.contains("larger than any store") == true)
    }

    @Test("a temporary file that a crash has left is removed, and never taken for the store")
    func leftover() throws {
        _ = try begun()
        try folder.write("sessions.tmp", "half a store")
        let file = try StoreSamples.file(path)
        #expect(try file.begin().contents["alice"] != nil)
        #expect(file.takeLogEvents() == [.leftoverRemoved])
        #expect(access(folder.file("sessions.tmp"), F_OK) != 0)
        // One that appears later is in no process's way.
        try folder.write("sessions.tmp", "half a store", mode: 0o400)
        _ = try file.commit(
            [
                .recordRefusal(
                    user: "alice", identity: "demo", CredentialFingerprint(bytes: [UInt8](repeating: 1, count: 32)))
            ],
            now: .now)
        #expect(try StoreSamples.file(path).begin().contents["alice"]?.refused != nil)
    }

    @Test("locks that exist without a store are those of a start that was cut off: an empty store is made")
    func firstStart() throws {
        for name in ["sessions.lock", "sessions.open", "sessions.alice.lock"] { try folder.write(name, "") }
        #expect(try OpenedStore.open(try StoreSamples.file(path)).contents.writes == 1)
    }

    @Test("a file that is taken away under a running Lanyard is not silently made anew")
    func takenAway() throws {
        let file = try begun()
        unlink(path)
        let change = StoreSamples.saveSession("bob", session: StoreSamples.session(2))
        let error = error { () throws(StoreError) in _ = try file.commit([change], now: .now) }
        #expect(error?.kind == .system(ENOENT))
        #expect(access(path, F_OK) != 0)
    }

    @Test("an older file in the place of a newer one is used, and told")
    func rolledBack() throws {
        let file = try begun()
        let old = try bytes()
        _ = try file.commit([StoreSamples.saveSession("bob", session: StoreSamples.session(2))], now: .now)
        _ = file.takeLogEvents()
        try write(old)
        chmod(path, 0o600)
        #expect(try file.read()["bob"] == nil)
        #expect(file.takeLogEvents() == [.rolledBack(from: 3, to: 2)])
    }

    @Test("a change that changes nothing writes nothing, and one that was overtaken neither")
    func nothingToWrite() throws {
        let file = try begun()
        let before = try bytes()
        let moved = SessionVersion(session: 9, generation: 9)
        let verdicts = try file.commit([.clearIntent(user: "zoe"), .end(user: "alice", base: moved)], now: .now)
        #expect(verdicts.first == .stored(nil))
        if case .overtaken(by: .some) = verdicts.last {} else { Issue.record("\(verdicts)") }
        #expect(try bytes() == before)
    }

    @Test("while another holds the lock a write is busy at once, and a read is not")
    func busy() throws {
        let file = try begun()
        let other = try SystemDisk(folder: folder.path, makesFolder: false)
        let lock = try #require(try other.lock("sessions.lock", .exclusive))
        #expect(
            error { () throws(StoreError) in _ = try file.commit([.clearIntent(user: "alice")], now: .now) }?.kind
                == .busy)
        #expect(try file.read()["alice"] != nil)
        lock.release()
        _ = try file.commit([.clearIntent(user: "alice")], now: .now)
    }

    @Test(
        "a folder that cannot be written leaves the store as it was",
        .enabled(if: getuid() != 0, "root writes everywhere"))
    func readOnlyFolder() throws {
        let file = try begun()
        let before = try bytes()
        chmod(folder.path, 0o500)
        defer { chmod(folder.path, 0o700) }
        let change = StoreSamples.saveSession("bob", session: StoreSamples.session(2))
        #expect(error { () throws(StoreError) in _ = try file.commit([change], now: .now) }?.kind == .system(EACCES))
        #expect(try bytes() == before)
    }

    @Test(
        "a full disk leaves the store as it was, and no temporary file",
        .enabled(if: getuid() == 0, "needs root, to mount"))
    func fullDisk() throws {
        let small = folder.file("small")
        mkdir(small, 0o700)
        guard mount("lanyard", small, "tmpfs", 0, "size=64k,mode=0700") == 0 else { return }
        defer { umount2(small, CInt(MNT_DETACH)) }
        let store = small + "/sessions"
        let file = try StoreSamples.file(store)
        _ = try file.begin()
        _ = try file.commit([StoreSamples.saveSession("alice", session: StoreSamples.session(1))], now: .now)
        let before = try Data(contentsOf: URL(filePath: store))
        let long = StoreSamples.session(2, access: String(repeating: "a", count: 65_000))
        let error = error { () throws(StoreError) in
            _ = try file.commit([StoreSamples.saveSession("bob", session: long)], now: .now)
        }
        #expect(error?.kind == .system(ENOSPC) && error?.message.contains("free space") == true)
        #expect(try Data(contentsOf: URL(filePath: store)) == before)
        #expect(access(store + ".tmp", F_OK) != 0)
        _ = try file.commit([StoreSamples.saveSession("bob", session: StoreSamples.session(3))], now: .now)
        #expect(try file.read()["bob"]?.session?.id == 3)
    }

    @Test("a new key seals the same contents, and the old one opens nothing any more")
    func reseal() throws {
        let file = try begun()
        let other = AESSealing(StoreSecret(.passphrase, StoreSamples.secret("correct horse")))
        try file.reseal(with: other)
        #expect(try file.read()["alice"] != nil)
        #expect(try refusal()?.message.contains("sealed with a passphrase, and the configuration names a key") == true)
    }
}
