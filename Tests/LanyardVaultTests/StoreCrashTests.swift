import Glibc
import TestSupport
import Testing

@testable import LanyardFoundations
@testable import LanyardSessionInterface
@testable import LanyardVault

/// The sealed file on a machine that dies at whatever moment.
@Suite struct StoreCrashTests {
    /// How a write is made.
    private enum Way: CaseIterable {
        /// A record at the file's end.
        case added
        /// A new file.
        case replaced
        /// A new file in the place of one of format 1, which is kept.
        case converted
        /// A record in the place of one that is not whole.
        case mended
    }

    /// A machine whose store holds alice's first session.
    private func machine(_ way: Way = .added) throws -> SimulatedDisk {
        let disk = SimulatedDisk()
        let file = try StoreSamples.file(on: disk.process())
        _ = try file.begin()
        _ = try file.commit([StoreSamples.saveSession("alice", session: StoreSamples.session(1))], now: .now)
        switch way {
        case .added, .replaced: break
        case .converted: disk.put("sessions", try StoreSamples.format1(file.read(), StandInSealing(key: 1)))
        case .mended:
            let whole = try #require(disk.bytes(of: "sessions"))
            _ = try file.commit([Self.second], now: .now)
            disk.put("sessions", Array(try #require(disk.bytes(of: "sessions")).prefix(whole.count + 100)))
        }
        return disk
    }

    /// The session of alice becomes the second one, beside something that needs a new file.
    private func changes(_ way: Way) -> [StoreChange] {
        let end = StoreChange.SessionEnd.ofUnknown(at: .now)
        return way == .replaced ? [Self.second, .logOut(user: "bob", identity: "demo", end)] : [Self.second]
    }

    private static let second = StoreSamples.saveSession(
        "alice", session: StoreSamples.session(2), base: SessionVersion(session: 1, generation: 1))

    /// What a start finds.
    private func reopened(_ disk: SimulatedDisk) throws -> StoreContents {
        let opened = try OpenedStore.open(try StoreSamples.file(on: disk.process()))
        #expect(disk.files.filter { $0 != "sessions.v1" } == ["sessions"])
        return opened.contents
    }

    private enum End: CaseIterable { case processOnly, powerAllLost, powerSomeKept }

    private func end(_ how: End, _ disk: SimulatedDisk, _ random: inout SeededGenerator) {
        switch how {
        case .processOnly: break
        case .powerAllLost: disk.losePower()
        case .powerSomeKept: disk.losePower(using: &random)
        }
    }

    @Test(
        "a crash at any call of a write leaves the old contents or the new, and what was answered is there",
        arguments: Way.allCases)
    private func anyCall(_ way: Way) throws {
        var random = SeededGenerator(6)
        var (old, new) = (0, 0)
        for how in End.allCases {
            for outcome in [SimulatedDisk.Outcome.diesBefore, .diesAfter] {
                for round in 0..<10 {
                    var place = 0
                    while true {
                        let disk = try machine(way)
                        let place_ = place
                        let process = disk.process { _, _, number in number == place_ ? outcome : .done }
                        let file = try StoreSamples.file(on: process)
                        let isConfirmed = (try? file.commit(changes(way), now: .now)) != nil
                        let hasDied = process.isDead
                        end(how, disk, &random)
                        let contents = try reopened(disk)
                        let id = try #require(contents["alice"]?.session?.id)
                        #expect(id == 1 || id == 2, "\(how), \(outcome), call \(place)")
                        #expect(
                            !isConfirmed || id == 2, "\(how), \(outcome), call \(place): an answered write was lost")
                        if way == .converted, let kept = disk.bytes(of: "sessions.v1") {
                            let kept = try StoreFile.contents(of: kept, sealing: StandInSealing(key: 1))
                            #expect(kept["alice"]?.session?.id == 1)
                        } else {
                            #expect(way != .converted || id == 1, "what was replaced is not kept")
                        }
                        if id == 1 { old += 1 } else { new += 1 }
                        // The last round of calls: nothing was left to die at.
                        if !hasDied { break }
                        place += 1
                    }
                    #expect(place >= 7, "round \(round): a write has more calls than \(place)")
                }
            }
        }
        #expect(old > 100 && new > 100, "\(old) old, \(new) new")
    }

    @Test("a crash at any call of the first start leaves a store that starts, or none")
    func firstStart() throws {
        var random = SeededGenerator(7)
        for how in End.allCases {
            for outcome in [SimulatedDisk.Outcome.diesBefore, .diesAfter] {
                for place in 0..<16 {
                    let disk = SimulatedDisk()
                    let process = disk.process { _, _, number in number == place ? outcome : .done }
                    let opened = try? OpenedStore.open(try StoreSamples.file(on: process))
                    end(how, disk, &random)
                    let contents = try reopened(disk)
                    #expect(contents.users == [])
                    if let opened, opened.unwritten == nil {
                        #expect(contents.fingerprintKey == opened.contents.fingerprintKey)
                    }
                }
            }
        }
    }

    @Test("a crash at any call of a rekeying leaves a file that exactly one of the two keys opens")
    func rekeying() throws {
        var random = SeededGenerator(8)
        for how in End.allCases {
            for outcome in [SimulatedDisk.Outcome.diesBefore, .diesAfter] {
                for place in 0..<14 {
                    let disk = try machine()
                    let process = disk.process { _, _, number in number == place ? outcome : .done }
                    let file = try StoreSamples.file(on: process)
                    let isDone = (try? file.reseal(with: StandInSealing(key: 2))) != nil
                    end(how, disk, &random)
                    let opens = [UInt64(1), 2].map { key in
                        (try? StoreSamples.file(on: disk.process(), key: key).read()["alice"]) != nil
                    }
                    #expect(opens[0] != opens[1])
                    #expect(!isDone || opens[1])
                }
            }
        }
    }

    @Test(
        "a call that fails leaves the old contents or the new, no leftover, and the next write succeeds",
        arguments: [EIO, ENOSPC, EINTR], Way.allCases)
    private func failures(_ code: CInt, _ way: Way) throws {
        let steps = try stepsOfWrite(way)
        let expected: [SimulatedDisk.Step] =
            switch way {
            case .added: [.lock, .read, .extend, .write, .sync]
            case .replaced, .converted: [.lock, .read, .create, .write, .sync, .rename, .syncFolder, .remove]
            case .mended: [.lock, .read, .cut, .extend, .write, .sync]
            }
        #expect(steps.isSuperset(of: expected), "\(steps)")
        for step in steps {
            let disk = try machine(way)
            let isFailing = Guarded(true)
            let process = disk.process { at, _, _ in at == step && isFailing.withLock { $0 } ? .fails(code) : .done }
            let file = try StoreSamples.file(on: process)
            let isStored = (try? file.commit(changes(way), now: .now)) != nil
            #expect(isStored == hasOtherWay(step, code, way), "\(step)")
            isFailing.withLock { $0 = false }
            #expect(disk.files.filter { $0 != "sessions.v1" } == ["sessions"] || step == .remove)
            // The same change again: one that was made after all is not taken for another's.
            guard case .stored(let user?) = try file.commit([Self.second], now: .now).first else {
                Issue.record("\(step): overtaken by itself")
                continue
            }
            #expect(user.session?.id == 2 && user.generation == 2)
            disk.losePower()
            #expect(try reopened(disk)["alice"]?.session?.id == 2)
        }
    }

    /// What cannot be synced is replaced by a new file; where there is no room for one, a record may find some.
    private func hasOtherWay(_ step: SimulatedDisk.Step, _ code: CInt, _ way: Way) -> Bool {
        switch way {
        case .added, .mended: step == .syncFile
        case .replaced: step == .syncFile || code == ENOSPC && [.create, .rename, .remove].contains(step)
        case .converted: false
        }
    }

    /// The calls that a write makes, without those that cannot fail and those after it.
    private func stepsOfWrite(_ way: Way) throws -> Set<SimulatedDisk.Step> {
        let disk = try machine(way)
        let steps = Guarded<Set<SimulatedDisk.Step>>([])
        let process = disk.process { step, name, _ in
            if name != "sessions.used" { steps.withLock { _ = $0.insert(step) } }
            return .done
        }
        _ = try StoreSamples.file(on: process).commit(changes(way), now: .now)
        return steps.withLock { $0.subtracting([.unlock]) }
    }

    @Test("a write that fails, and whose beginning cannot be cut off, is not in the way of the next one")
    func uncut() throws {
        let disk = try machine()
        let isFailing = Guarded(true)
        let process = disk.process { step, _, number in
            guard isFailing.withLock({ $0 }) else { return .done }
            // The record has two parts; the second one fails.
            return step == .cut ? .fails(EIO) : step == .write ? (number % 2 == 0 ? .short(60) : .fails(ENOSPC)) : .done
        }
        let file = try StoreSamples.file(on: process)
        for _ in 0..<3 { #expect(throws: StoreError.self) { try file.commit([Self.second], now: .now) } }
        #expect(try file.read()["alice"]?.session?.id == 1)
        isFailing.withLock { $0 = false }
        _ = try file.commit([Self.second], now: .now)
        disk.losePower()
        #expect(try reopened(disk)["alice"]?.session?.id == 2)
    }

    @Test("writes that take a byte at a time come to the same file", arguments: Way.allCases)
    private func shortWrites(_ way: Way) throws {
        let disk = try machine(way)
        let process = disk.process { _, _, _ in .short(1) }
        _ = try StoreSamples.file(on: process).commit(changes(way), now: .now)
        #expect(try reopened(disk)["alice"]?.session?.id == 2)
    }

    /// The call after which a write outlasts a loss of power.
    private func last(_ way: Way) -> SimulatedDisk.Step { way == .added || way == .mended ? .sync : .syncFolder }

    private static let syncs: Set<SimulatedDisk.Step> = [.sync, .syncFile, .syncFolder]

    @Test("what another process read after the writer's death is not lost with the power", arguments: Way.allCases)
    private func readIsDurable(_ way: Way) throws {
        let disk = try machine(way)
        let writer = disk.process { step, _, _ in step == last(way) ? .diesBefore : .done }
        #expect(throws: StoreError.self) { try StoreSamples.file(on: writer).commit(changes(way), now: .now) }
        let reader = try StoreSamples.file(on: disk.process())
        #expect(try reader.read()["alice"]?.session?.id == 2)
        disk.losePower()
        #expect(try reopened(disk)["alice"]?.session?.id == 2)
    }

    @Test(
        "what cannot be synced is still read and said to be unsafe, until a write of the reader's own makes it last",
        arguments: Way.allCases)
    private func readUnsynced(_ way: Way) throws {
        let disk = try machine(way)
        let writer = disk.process { step, _, _ in step == last(way) ? .diesBefore : .done }
        #expect(throws: StoreError.self) { try StoreSamples.file(on: writer).commit(changes(way), now: .now) }
        let isFailing = Guarded(true)
        let process = disk.process { step, _, _ in
            Self.syncs.contains(step) && isFailing.withLock { $0 } ? .fails(EIO) : .done
        }
        let reader = try StoreSamples.file(on: process)
        #expect(try reader.read()["alice"]?.session?.id == 2)
        #expect(reader.unsynced?.kind == .system(EIO))
        // A change that changes nothing is no promise either.
        #expect(throws: StoreError.self) { try reader.commit([.clearIntent(user: "alice")], now: .now) }
        isFailing.withLock { $0 = false }
        // The kernel tells of a loss once: that it is silent now says nothing of what is on the disk.
        let writes = try reader.read().writes
        #expect(reader.unsynced != nil)
        _ = try reader.commit([.clearIntent(user: "alice")], now: .now)
        #expect(reader.unsynced == nil)
        #expect(try reader.read().writes == writes + 1)
        disk.losePower()
        #expect(try reopened(disk)["alice"]?.session?.id == 2)
    }

    @Test("what could not be synced is safe again with what another process has written since", arguments: Way.allCases)
    private func resynced(_ way: Way) throws {
        let disk = try machine(way)
        let isFailing = Guarded(true)
        let process = disk.process { step, _, _ in
            Self.syncs.contains(step) && isFailing.withLock { $0 } ? .fails(EIO) : .done
        }
        let reader = try StoreSamples.file(on: process)
        #expect(try reader.read()["alice"]?.session?.id == 1)
        isFailing.withLock { $0 = false }
        let writer = disk.process { step, _, _ in step == last(way) ? .diesBefore : .done }
        #expect(throws: StoreError.self) { try StoreSamples.file(on: writer).commit(changes(way), now: .now) }
        #expect(reader.unsynced != nil)
        #expect(try reader.read()["alice"]?.session?.id == 2)
        // Of the same file a later fsync proves nothing: only a new one does.
        #expect((reader.unsynced == nil) == (way == .replaced || way == .converted))
        _ = try reader.commit([.clearIntent(user: "alice")], now: .now)
        #expect(reader.unsynced == nil)
        disk.losePower()
        #expect(try reopened(disk)["alice"]?.session?.id == 2)
    }

    @Test(
        "a disk without room for the first file starts, is told, and the store is made with the first change that fits")
    func noRoom() throws {
        let disk = SimulatedDisk(room: 20)
        let file = try StoreSamples.file(on: disk.process())
        let opened = try OpenedStore.open(file)
        #expect(opened.unwritten?.kind == .system(ENOSPC))
        #expect(disk.bytes(of: "sessions") == nil && disk.files == [])
        disk.setRoom(.max)
        _ = try file.commit([StoreSamples.saveSession("alice", session: StoreSamples.session(1))], now: .now)
        let contents = try reopened(disk)
        #expect(contents["alice"]?.session?.id == 1 && contents.fingerprintKey == opened.contents.fingerprintKey)
    }

    @Test(
        "whether a store that is there can be written shows at the start: rights that are missing end it, what may pass is told",
        arguments: [EACCES, EPERM, EROFS, ENOSPC, EDQUOT, EIO, ENFILE])
    func writingTried(_ code: CInt) throws {
        for step in [SimulatedDisk.Step.create, .remove] {
            let disk = try machine()
            let before = disk.bytes(of: "sessions")
            let process = disk.process { at, name, _ in
                at == step && name == "sessions.tmp" ? .fails(code) : .done
            }
            let file = try StoreSamples.file(on: process)
            do throws(StoreError) {
                let opened = try OpenedStore.open(file)
                #expect(opened.unwritten?.kind == .system(code) && opened.contents["alice"]?.session?.id == 1)
                #expect(![EACCES, EPERM, EROFS].contains(code))
            } catch {
                #expect(error.kind == .system(code) && error.exitCode == 78 && [EACCES, EPERM, EROFS].contains(code))
            }
            #expect(disk.bytes(of: "sessions") == before)
            #expect(try reopened(disk)["alice"]?.session?.id == 1)
        }
    }

    @Test("a crash at any call of a start leaves the store as it was")
    func start() throws {
        var random = SeededGenerator(9)
        for how in End.allCases {
            for outcome in [SimulatedDisk.Outcome.diesBefore, .diesAfter] {
                for place in 0..<12 {
                    let disk = try machine()
                    let process = disk.process { _, _, number in number == place ? outcome : .done }
                    _ = try? OpenedStore.open(try StoreSamples.file(on: process))
                    end(how, disk, &random)
                    #expect(try reopened(disk)["alice"]?.session?.id == 1)
                }
            }
        }
    }

    @Test("a process that died holds no lock")
    func locksOfTheDead() throws {
        let disk = try machine()
        let first = disk.process()
        let lock = try #require(try first.lock("sessions.lock", .exclusive))
        #expect(try disk.process().lock("sessions.lock", .exclusive) == nil)
        first.die()
        #expect(try disk.process().lock("sessions.lock", .exclusive) != nil)
        lock.release()
    }
}
