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
            group.addTask {
                try await Task.sleep(for: .milliseconds(1))
                // What follows a sleep may block as well, and other sleepers wake all the same.
                let other = Task {
                    try await Task.sleep(for: .milliseconds(1))
                    isAwake.set()
                }
                isAwake.wait(for: "the other sleeper")
                try await other.value
            }
            try await group.waitForAll()
        }
    }

    @Test("sleeps end in the order of their length, and a cancelled one at once")
    func order() async throws {
        let ended = Guarded<[Int]>([])
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in [3, 1, 2] {
                group.addTask { @Sendable in
                    try await Task.sleep(for: .milliseconds(100 * number))
                    ended.withLock { $0.append(number) }
                }
            }
            try await group.waitForAll()
        }
        #expect(ended.withLock { $0 } == [1, 2, 3])
        let sleeper = Task { try await Task.sleep(for: .seconds(86_400)) }
        sleeper.cancel()
        await #expect(throws: CancellationError.self) { try await sleeper.value }
    }
}
