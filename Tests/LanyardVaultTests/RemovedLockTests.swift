import Dispatch
import TestSupport
import Testing

@testable import LanyardVault

/// Lock files that their holders remove.
@Suite struct RemovedLockTests {
    @Test("the holder of a lock has it alone, although each holder removes the file before it gives the lock back")
    func alone() throws {
        let folder = try TemporaryFolder()
        let (inside, clashes, turns) = (Tally(), Tally(), Tally())
        DispatchQueue.concurrentPerform(iterations: 4) { _ in
            guard let disk = try? SystemDisk(folder: folder.path, makesFolder: false) else { return }
            for _ in 0..<20_000 {
                guard let lock = try? disk.lock("sessions.alice.lock", .exclusive) else { continue }
                inside.add()
                if inside.value != 1 { clashes.add() }
                inside.add(-1)
                turns.add()
                try? disk.remove("sessions.alice.lock")
                lock.release()
            }
        }
        #expect(turns.value > 1000)
        #expect(clashes.value == 0)
    }

    @Test("a lock whose file was removed protects nothing: the next one gets another file")
    func replaced() throws {
        let folder = try TemporaryFolder()
        let disk = try SystemDisk(folder: folder.path, makesFolder: false)
        let first = try #require(try disk.lock("sessions.lock", .exclusive))
        #expect(try disk.lock("sessions.lock", .exclusive) == nil)
        try disk.remove("sessions.lock")
        let second = try #require(try disk.lock("sessions.lock", .exclusive))
        first.release()
        #expect(try disk.lock("sessions.lock", .exclusive) == nil)
        second.release()
    }
}
