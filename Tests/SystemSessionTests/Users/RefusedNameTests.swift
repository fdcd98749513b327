import Foundation
import TestSupport
import Testing

@testable import SystemTestSupport

/// Names that never became users leave nothing behind.
@Suite struct RefusedNameTests {
    private static func bench(_ folder: TemporaryFolder) async throws -> UsersBench {
        try folder.write("key", String(repeating: "k", count: 64))
        return try await UsersBench.start(
            "active_user: alice\nstore: {path: \(folder.file("sessions")), key_file: \(folder.file("key"))}\n")
    }

    private static func locks(_ folder: TemporaryFolder) throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: folder.path).filter { $0.hasSuffix(".lock") }.sorted()
    }

    /// How many samples each page has: a name that is kept would be seen here.
    private static func series(_ bench: UsersBench) async throws -> Int {
        let page = try await RawClient.ask(bench.lanyard.health, "GET", "/metrics")
        return try ExpositionReader(page.body, openMetrics: false).samples.count
    }

    @Test("refused additions leave no lock file, no user, and no metric; the names are free")
    func refused() async throws {
        let folder = try TemporaryFolder()
        let bench = try await Self.bench(folder)
        try await bench.untilAlice()
        let refusal = UsersBench.email("bob", password: "wrong-one")
        #expect(try await bench.add("first", refusal).status == 422)
        let (before, series) = (try await bench.users(), try await Self.series(bench))
        for number in 0..<20 { #expect(try await bench.add("name-\(number)", refusal).status == 422) }
        try await eventually("the lock files are gone") {
            try Self.locks(folder) == ["sessions.alice.lock", "sessions.lock"]
        }
        #expect(try await bench.users() == before)
        #expect(try await Self.series(bench) == series)
        #expect(try await bench.add("name-7", UsersBench.email("bob")).status == 201)
        #expect(try Self.locks(folder) == ["sessions.alice.lock", "sessions.lock", "sessions.name-7.lock"])
    }

    @Test("a user that is removed takes its lock file away")
    func removed() async throws {
        let folder = try TemporaryFolder()
        let bench = try await Self.bench(folder)
        try await bench.untilAlice()
        try await bench.add("bob")
        #expect(try await bench.call("DELETE", "/users/bob").status < 300)
        try await eventually("the lock file is gone") {
            try Self.locks(folder) == ["sessions.alice.lock", "sessions.lock"]
        }
        try await bench.add("bob")
        #expect(try await bench.call("POST", "/users/bob/refresh").status == 200)
    }
}
