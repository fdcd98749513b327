import Foundation
import Glibc
import TestSupport
import Testing

@testable import LanyardFoundations
@testable import LanyardSessionInterface
@testable import LanyardVault

/// The file of format 2: a record for each write.
@Suite struct StoreLogTests {
    private let folder: TemporaryFolder
    private let path: String

    init() throws {
        folder = try TemporaryFolder()
        path = folder.file("sessions")
    }

    private static let sealing = AESSealing(StoreSecret(.key, StoreSamples.secret([UInt8](repeating: 1, count: 32))))

    private func bytes() throws -> [UInt8] { Array(try Data(contentsOf: URL(filePath: path))) }

    private func write(_ bytes: [UInt8]) throws {
        try Data(bytes).write(to: URL(filePath: path))
        chmod(path, 0o600)
    }

    private static func save(
        _ user: String, _ id: UInt64, refresh: String = "refresh", base: SessionVersion = .absent
    ) -> StoreChange {
        StoreSamples.saveSession(user, session: StoreSamples.session(id, refresh: refresh), base: base)
    }

    /// A store with so many users.
    private func store(_ count: Int) throws -> StoreFile {
        let file = try StoreSamples.file(path)
        _ = try file.begin()
        _ = try file.commit((0..<count).map { Self.save("user-\($0)", 1) }, now: .now)
        return file
    }

    private func error(_ bytes: [UInt8]) -> StoreError? {
        do throws(StoreError) {
            _ = try StoreFile.contents(of: bytes, sealing: Self.sealing)
            return nil
        } catch {
            return error
        }
    }

    // MARK: What a write costs

    @Test("a token's rotation among ten thousand users writes less than 16 KiB, and syncs twice")
    func rotation() throws {
        let disk = SimulatedDisk()
        let syncs = Guarded(0)
        let process = disk.process { step, _, _ in
            if [.sync, .syncFile, .syncFolder].contains(step) { syncs.withLock { $0 += 1 } }
            return .done
        }
        let file = try StoreSamples.file(on: process)
        _ = try file.begin()
        let name = { (index: Int) in "user-\(index)" }
        _ = try file.commit((0..<10_000).map { Self.save(name($0), 1) }, now: .now)
        // The last new file was made by this write.
        _ = try file.commit([Self.save("last", 1)], now: .now)
        let (size, before) = (try #require(disk.bytes(of: "sessions")).count, syncs.withLock { $0 })
        let version = SessionVersion(session: 1, generation: 1)
        let intent = StoredIntent(kind: .refresh, at: .now, tries: 1)
        _ = try file.commit([.storeIntent(user: name(77), identity: "demo", intent, base: version)], now: .now)
        _ = try file.read()
        _ = try file.commit([Self.save(name(77), 1, refresh: "rotated", base: version)], now: .now)
        #expect(syncs.withLock { $0 } == before + 2)
        #expect(size > 900_000)
        #expect(try #require(disk.bytes(of: "sessions")).count - size < 1 << 10)
        let user = try #require(try StoreSamples.file(on: disk.process()).read()[name(77)])
        #expect(user.session?.refresh == StoreSamples.secret("rotated") && user.intent == nil)
    }

    @Test("the file becomes a new one when what was added is more than its contents were")
    func compaction() throws {
        let file = try store(200)
        var (sizes, files): ([Int], Set<UInt64>) = ([], [])
        var version = SessionVersion(session: 1, generation: 1)
        for round in 0..<3000 {
            let change = Self.save("user-7", 1, refresh: "token-\(round)", base: version)
            guard case .stored(let user?) = try file.commit([change], now: .now)[0] else {
                return #expect(Bool(false), "round \(round) was not stored")
            }
            version = user.version
            var status = stat()
            #expect(stat(path, &status) == 0)
            sizes.append(Int(status.st_size))
            files.insert(UInt64(status.st_ino))
        }
        #expect(try #require(sizes.max()) <= 128 << 10)
        // The first one has grown from nothing.
        #expect((2...60).contains(files.count), "\(files.count) files")
        let user = try #require(try StoreSamples.file(path).read()["user-7"])
        #expect(user.session?.refresh == StoreSamples.secret("token-2999") && user.version == version)
    }

    @Test("after a logout and after a removal the file holds no token of that session", arguments: [false, true])
    func erased(_ isRemoval: Bool) throws {
        let file = try store(3)
        let version = SessionVersion(session: 1, generation: 1)
        _ = try file.commit([Self.save("user-1", 1, refresh: "used up", base: version)], now: .now)
        #expect(try texts().contains("used up") && (try texts()).contains("refresh"))
        var end = StoreChange.SessionEnd.ofUnknown(at: .now)
        end.isDeleted = true
        end.version = SessionVersion(session: 1, generation: 2)
        _ = try file.commit(
            [isRemoval ? .remove(user: "user-1", end) : .logOut(user: "user-1", identity: "demo", end)], now: .now)
        let text = try texts()
        #expect(!text.contains("used up") && text.contains("user-0"))
        #expect(text.components(separatedBy: "refresh").count - 1 == 2)
    }

    /// The texts of all records, one behind the other.
    private func texts() throws -> String {
        let bytes = try bytes()
        return try bytes.withUnsafeBytes { bytes in
            var log = StoreLog(try Self.sealing.file(of: bytes))
            var text = ""
            while case .record(let record) = try log.next(UnsafeRawBufferPointer(rebasing: bytes[log.end...])) {
                record.withBytes { text += String(decoding: $0, as: UTF8.self) }
            }
            return text
        }
    }

    // MARK: Torn and damaged

    @Test("a last record that is cut at any byte, or lacks any sector, counts as not written; the next write follows")
    func torn() throws {
        let file = try store(3)
        let before = try bytes()
        let long = StoreSamples.session(9, access: String(repeating: "a", count: 1500))
        _ = try file.commit([StoreSamples.saveSession("user-9", session: long)], now: .now)
        let whole = try bytes()
        var torn = (before.count..<whole.count).map { Array(whole.prefix($0)) }
        for sector in stride(from: before.count / 512 * 512, to: whole.count, by: 512) {
            var lost = whole
            for place in max(before.count, sector)..<min(whole.count, sector + 512) { lost[place] = 0 }
            torn.append(lost)
        }
        for (index, bytes) in torn.enumerated() {
            let contents = try StoreFile.contents(of: bytes, sealing: Self.sealing)
            #expect(contents["user-9"] == nil && contents.users.count == 3 && contents.writes == 2)
            guard index % 16 == 0 || bytes.count == whole.count else { continue }
            try write(bytes)
            _ = try StoreSamples.file(path).commit([Self.save("user-10", 1)], now: .now)
            let next = try StoreSamples.file(path).read()
            #expect(next.users.map(\.name) == ["user-0", "user-1", "user-2", "user-10"] && next.writes == 3)
        }
    }

    @Test("a changed bit anywhere in the file is damage, and so is a cut before the last write")
    func damaged() throws {
        let file = try store(2)
        for index in 5..<8 { _ = try file.commit([Self.save("user-\(index)", 1)], now: .now) }
        let whole = try bytes()
        for place in whole.indices {
            var changed = whole
            changed[place] ^= 1 << (place % 8)
            let kind = error(changed)?.kind
            let isTold: Bool =
                switch place {
                case 8..<10: kind == .newerVersion || kind == .damaged
                case 10: kind == .damaged || kind == .wrongKey
                case 32..<40: kind == .wrongKey
                default: kind == .damaged
                }
            #expect(isTold, "byte \(place) of \(whole.count): \(kind.map { "\($0)" } ?? "opened")")
        }
        let records = try places(whole)
        for cut in 0..<records[1] { #expect(error(Array(whole.prefix(cut)))?.kind == .damaged, "cut at \(cut)") }
        // Sectors of zeros that have records behind them were written once.
        var lost = whole
        for place in records[2]..<records[3] { lost[place] = 0 }
        #expect(error(lost)?.kind == .damaged)
    }

    /// Where records begin.
    private func places(_ file: [UInt8]) throws -> [Int] {
        try file.withUnsafeBytes { bytes in
            var log = StoreLog(try Self.sealing.file(of: bytes))
            var places = [log.end]
            while case .record = try log.next(UnsafeRawBufferPointer(rebasing: bytes[log.end...])) {
                places.append(log.end)
            }
            return places
        }
    }

    @Test("records that were removed, repeated, swapped, or moved from another file are damage")
    func chain() throws {
        let file = try store(2)
        for index in 5..<9 { _ = try file.commit([Self.save("user-\(index)", 1)], now: .now) }
        let whole = try bytes()
        let places = try places(whole)
        let records = zip(places, places.dropFirst()).map { Array(whole[$0..<$1]) }
        #expect(records.count == 6)
        func joined(_ order: [Int]) -> [UInt8] { whole.prefix(LogHeader.byteCount) + order.flatMap { records[$0] } }
        #expect(error(joined([0, 1, 2, 3, 4, 5])) == nil)
        for order in [
            [0, 1, 2, 4, 5], [0, 1, 3, 4, 5], [0, 2, 3, 4, 5], [1, 2, 3, 4, 5], [0, 1, 2, 2, 3, 4, 5],
            [0, 1, 2, 4, 3, 5], [1, 0, 2, 3, 4, 5], [0, 1, 2, 3, 4, 5, 5], [0, 1, 2, 3, 4, 5, 0],
        ] {
            #expect(error(joined(order))?.kind == .damaged, "\(order)")
        }
        // A copy from before that was continued: its record has the same number, and the same key.
        try write(Array(whole[..<places[3]]))
        _ = try StoreSamples.file(path).commit([Self.save("elsewhere", 1)], now: .now)
        let continued = try bytes()
        #expect(error(continued) == nil && error(continued + records[4])?.kind == .damaged)
        let other = folder.file("other")
        let second = try StoreSamples.file(other)
        _ = try second.begin()
        let foreign = Array(try Data(contentsOf: URL(filePath: other)))
        #expect(error(foreign + records[1])?.kind == .damaged)
        #expect(error([UInt8](whole[..<LogHeader.byteCount] + foreign[LogHeader.byteCount...]))?.kind == .damaged)
    }

    @Test("a store of 50 MB with a torn end is read, and one change of it is one record")
    func large() throws {
        let file = try StoreSamples.file(path)
        _ = try file.begin()
        let long = String(repeating: "a", count: 25_000)
        for part in 0..<20 {
            let changes = (0..<50).map { index in
                StoreSamples.saveSession(
                    "user-\(part)-\(index)", session: StoreSamples.session(1, access: long, refresh: long))
            }
            _ = try file.commit(changes, now: .now)
        }
        let whole = try bytes()
        #expect(whole.count > 50_000_000)
        try write(whole + [UInt8](repeating: 0, count: 4000))
        let again = try StoreSamples.file(path)
        #expect(try again.begin().contents.users.count == 1000)
        _ = try again.commit([Self.save("one-more", 1)], now: .now)
        #expect(try bytes().count < whole.count + 1000)
        #expect(try StoreSamples.file(path).read().users.count == 1001)
    }

    // MARK: Several processes

    @Test("two processes that write in turn hold the same, whichever of them makes a new file")
    func twoProcesses() throws {
        let files = [try store(2), try StoreSamples.file(path)]
        _ = try files[1].begin()
        var random = SeededGenerator(54)
        for round in 0..<400 {
            let writer = files[Int.random(in: 0...1, using: &random)]
            let name = "user-\(Int.random(in: 0..<30, using: &random))"
            let stored = try writer.read()[name]
            let end = StoreChange.SessionEnd.ofUnknown(at: .now)
            let change: StoreChange =
                switch Int.random(in: 0..<20, using: &random) {
                case 0: .remove(user: name, end)
                case 1: .logOut(user: name, identity: "demo", end)
                case 2: .activate(StoreContents.ActiveChoice(user: name, configured: nil))
                default: Self.save(name, UInt64(round + 2), base: stored?.version ?? .absent)
                }
            let verdict = try writer.commit([change], now: .now)[0]
            if case .overtaken = verdict { #expect(Bool(false), "\(change) was overtaken") }
            let (one, two) = (try files[0].read(), try files[1].read())
            #expect(one == two)
        }
        #expect(try files[0].read() == StoreSamples.file(path).read())
    }

    @Test("a copy from before, of the same length and with the same beginning, is found to be another file")
    func replacedByCopy() throws {
        let file = try store(2)
        let old = try bytes()
        _ = try file.commit([Self.save("alice", 5)], now: .now)
        _ = file.takeLogEvents()
        let length = try bytes().count
        try write(old)
        // Another process continues the copy before this one has looked.
        _ = try StoreSamples.file(path).commit([Self.save("carol", 6)], now: .now)
        #expect(try bytes().count == length)
        let contents = try file.read()
        #expect(contents["carol"] != nil && contents["alice"] == nil)
        _ = try file.commit([Self.save("bob", 7)], now: .now)
        #expect(try StoreSamples.file(path).read().users.map(\.name) == ["user-0", "user-1", "carol", "bob"])
    }

    // MARK: Format 1

    @Test("a file of format 1 is read, replaced by the first change and kept beside it; a new key removes the copy")
    func format1() throws {
        let old = try StoreSamples.format1(StoreSamples.version7, Self.sealing)
        try write(old)
        let file = try StoreSamples.file(path)
        #expect(try file.begin().contents == StoreSamples.version7)
        #expect(try file.read() == StoreSamples.version7 && (try bytes()) == old)
        let kept = folder.file("sessions.v1")
        #expect(access(kept, F_OK) != 0)
        _ = try file.commit([Self.save("new", 3)], now: .now)
        #expect(Array(try Data(contentsOf: URL(filePath: kept))) == old)
        var status = stat()
        #expect(stat(kept, &status) == 0 && status.st_mode & 0o7777 == 0o600)
        var expected = StoreSamples.version7
        expected.writes += 1
        _ = expected.apply(Self.save("new", 3), now: .now)
        #expect(try StoreSamples.file(path).read() == expected)
        try file.reseal(with: AESSealing(StoreSecret(.key, StoreSamples.secret([UInt8](repeating: 2, count: 32)))))
        #expect(access(kept, F_OK) != 0)
        expected.writes += 1
        #expect(try StoreSamples.file(path, key: 2).read() == expected)
    }

    // MARK: Contents

    @Test("a file and a write with given random bytes are those that another program makes from the page")
    func vector() throws {
        let counting: AESSealing.Entropy = { room in
            for index in room.indices { room[index] = UInt8(index) }
            return true
        }
        let sealing = AESSealing(StoreSecret(.key, StoreSamples.secret(100..<132)), entropy: counting)
        var (bytes, place) = try LogPlace.file(of: StoreSamples.contents, sealing, "a file")
        var contents = StoreSamples.contents
        var delta = StoreDelta()
        for edit in [StoreDelta.Edit.user("bob.b", nil), .removedRevocation(0)] {
            guard let undoing = contents.make(edit) else { throw TestFailure("the edit does not fit") }
            delta.steps.append(StoreDelta.Step(edit: edit, undoing: undoing))
        }
        bytes += try place.append(delta, "a file")
        #expect(bytes == StoreVectors.log)
        contents.writes += 1
        #expect(try StoreFile.contents(of: StoreVectors.log, sealing: sealing) == contents)
    }

    @Test("records hold whatever contents can have", arguments: 0..<6)
    func samples(_ index: Int) throws {
        let contents = [
            StoreSamples.contents, StoreSamples.version2, StoreSamples.version4, StoreSamples.version5,
            StoreSamples.version6, StoreSamples.version7,
        ][index]
        let (bytes, _) = try LogPlace.file(of: contents, Self.sealing, "a file")
        #expect(try StoreFile.contents(of: bytes, sealing: Self.sealing) == contents)
        #expect(bytes.count % RecordHeader.byteCount == 0)
    }
}
