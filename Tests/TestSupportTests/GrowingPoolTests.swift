import Glibc
import LanyardFoundations
import TestSupport
import Testing

/// Tests may block: without a pool that grows these tests never end.
@Suite struct GrowingPoolTests {
    /// More than the runtime's own pool has on any machine that runs the tests.
    private static let count = 2 * max(sysconf(CInt(_SC_NPROCESSORS_ONLN)), 32)

    @Test("each of many tasks that block until all of them run gets a thread")
    func meeting() async throws {
        let arrived = Guarded(0)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<Self.count {
                group.addTask { @Sendable in
                    arrived.withLock { $0 += 1 }
                    try blockUntil("all \(Self.count) are there") { arrived.withLock { $0 } == Self.count }
                }
            }
            try await group.waitForAll()
        }
    }

    @Test("a task wakes from its sleep while others block")
    func sleepers() async throws {
        let isAwake = Milestone()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<Self.count { group.addTask { isAwake.wait(for: "the sleeper") } }
            // What follows a sleep may block as well, and other sleepers still wake.
            for isFirst in [true, false] {
                group.addTask { @Sendable in
                    // Sleep is the subject.
                    try await Task.sleep(for: .milliseconds(isFirst ? 1 : 20))
                    if isFirst { isAwake.wait(for: "the other sleeper") } else { isAwake.set() }
                }
            }
            try await group.waitForAll()
        }
    }

    @Test("sleeps end in the order of their length, and a cancelled one at once")
    func order() async throws {
        let ended = Guarded<[Int]>([])
        let sleepers = [300, 100, 200, 86_400_000].map { length in
            Task { @Sendable in
                // Sleep is the subject.
                try await Task.sleep(for: .milliseconds(length))
                ended.withLock { $0.append(length) }
            }
        }
        for sleeper in sleepers.dropLast() { try await sleeper.value }
        #expect(ended.withLock { $0 } == [100, 200, 300])
        sleepers[3].cancel()
        await #expect(throws: CancellationError.self) { try await sleepers[3].value }
    }
}
