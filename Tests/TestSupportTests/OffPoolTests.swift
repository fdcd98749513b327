import Glibc
import LanyardFoundations
import TestSupport
import Testing

@Suite struct OffPoolTests {
    @Test("a test with the trait runs on threads of its own", .offPool)
    func scope() async throws {
        #expect(isOffPool())
        await Task.yield()
        #expect(isOffPool())
    }

    @Test("blocking work runs on threads of its own, as many as are asked for, within its task")
    func threads() async throws {
        // More than any pool has: each waits until all of them are there.
        let meeting = Meeting(count: 2 * max(sysconf(CInt(_SC_NPROCESSORS_ONLN)), 32))
        let marks = try await Mark.$current.withValue(7) { try await meeting.hold() }
        #expect(marks == Array(repeating: 7, count: meeting.count))
        #expect(meeting.arrived.withLock { $0 } == meeting.count)
    }

    @Test("an error comes through, and what fails is this test's")
    func failures() async throws {
        await #expect(throws: TestFailure.self) { try await offPool { throw TestFailure("thrown") } }
        await withKnownIssue { try await offPool { #expect(Test.current?.name == "failures()" && Bool(false)) } }
    }
}

private enum Mark {
    @TaskLocal static var current = 0
}

private final class Meeting: Sendable {
    let count: Int
    let arrived = Guarded(0)

    init(count: Int) { self.count = count }

    func hold() async throws -> [Int] {
        try await withThrowingTaskGroup(of: Int.self) { group in
            for _ in 0..<count { group.addTask { try await offPool { try self.attend() } } }
            return try await group.reduce(into: []) { $0.append($1) }
        }
    }

    private func attend() throws -> Int {
        arrived.withLock { $0 += 1 }
        try blockUntil("all \(count) are there", within: .seconds(20)) { arrived.withLock { $0 } >= count }
        return Mark.current
    }
}
