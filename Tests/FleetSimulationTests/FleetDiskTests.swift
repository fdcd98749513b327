import FleetSimulation
import LanyardFoundations
import LanyardVault
import Testing

@Suite("The simulated disk and seal")
struct FleetDiskTests {
    private let disk = FleetDisk()

    private func write(_ text: String, to name: String, on gate: FleetDiskGate, syncing: Bool = true) throws {
        let draft = try gate.create(name)
        var rest = Array(text.utf8)[...]
        while !rest.isEmpty { rest = try rest.dropFirst(rest.withUnsafeBytes { try draft.write($0) }) }
        if syncing { try draft.sync() }
    }

    private func text(_ name: String, _ disk: FleetDisk) -> String? {
        disk.content(of: name).map { String(decoding: $0, as: UTF8.self) }
    }

    @Test("what was synchronized, file and folder, outlasts every loss of power")
    func synchronized() throws {
        for seed in 1...50 as ClosedRange<UInt64> {
            let disk = FleetDisk()
            let gate = FleetDiskGate(disk, process: 0)
            try write("whole", to: "a", on: gate)
            try gate.rename("a", to: "b")
            try gate.syncFolder()
            var random = SplitMix64(seed)
            disk.losePower(&random)
            #expect(text("b", disk) == "whole" && text("a", disk) == nil)
        }
    }

    @Test("a name may be lost without its folder's synchronization, and a file's bytes without its own")
    func lost() throws {
        var names: Set<String?> = []
        var texts: Set<String?> = []
        for seed in 1...200 as ClosedRange<UInt64> {
            let disk = FleetDisk()
            let gate = FleetDiskGate(disk, process: 0)
            try write("old", to: "b", on: gate)
            try gate.syncFolder()
            try write("newer", to: "a", on: gate, syncing: seed.isMultiple(of: 2))
            try gate.rename("a", to: "b")
            var random = SplitMix64(seed)
            disk.losePower(&random)
            if seed.isMultiple(of: 2) { names.insert(text("b", disk)) } else { texts.insert(text("b", disk)) }
        }
        #expect(names == ["old", "newer"])
        #expect(texts.contains("old") && texts.contains("newer") && texts.contains("new") && texts.contains(""))
    }

    @Test("a process that dies at a call has made it or not, and its locks are free")
    func death() throws {
        for isLate in [false, true] {
            let disk = FleetDisk()
            let gate = FleetDiskGate(disk, process: 0)
            let lock = try gate.lock("l", .exclusive)
            try write("x", to: "a", on: gate)
            gate.arm(CrashPoint(.open, .rename), isLate: isLate)
            #expect(throws: DiskError.self) { try gate.rename("a", to: "b") }
            #expect(throws: DiskError.self) { try gate.syncFolder() }
            #expect((text("b", disk) == nil) == !isLate)
            let other = FleetDiskGate(disk, process: 1)
            #expect(try other.lock("l", .exclusive) != nil)
            withExtendedLifetime(lock) {}
        }
    }

    @Test("an exclusive lock excludes, shared ones do not exclude each other")
    func locks() throws {
        let (one, two) = (FleetDiskGate(disk, process: 0), FleetDiskGate(disk, process: 1))
        let shared = try #require(try one.lock("open", .shared))
        let other = try #require(try two.lock("open", .shared))
        #expect(try two.lock("open", .exclusive) == nil)
        shared.release()
        other.release()
        let alone = try #require(try two.lock("open", .exclusive))
        #expect(try one.lock("open", .shared) == nil)
        alone.release()
        #expect(try one.lock("open", .shared) != nil)
    }

    @Test("the cheap seal tells a wrong key from a damaged, a truncated and a foreign file")
    func seal() throws {
        let seal = CheapSealing(key: 1)
        let sealed = try Array("a store's text, long enough".utf8).withUnsafeBytes { try seal.seal($0) }
        #expect(try sealed.withUnsafeBytes { try seal.open($0) }.count == 27)
        #expect(throws: SealingError.wrongKey) { try sealed.withUnsafeBytes { try CheapSealing(key: 2).open($0) } }
        for place in [0, 16, 24, 33, sealed.count - 1] {
            var damaged = sealed
            damaged[place] ^= 4
            #expect(throws: SealingError.self) { try damaged.withUnsafeBytes { try seal.open($0) } }
        }
        for count in 0..<sealed.count {
            #expect(throws: SealingError.self) { try sealed[..<count].withUnsafeBytes { try seal.open($0) } }
        }
    }
}
