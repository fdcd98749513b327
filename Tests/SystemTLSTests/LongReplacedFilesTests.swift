import TestSupport
import Testing

@testable import SystemTestSupport

/// The files of replaced configurations over many reloads (architecture-control.md 7.9).
@Suite(.enabled(if: PythonProcess.isInstalled, "needs /usr/bin/python3"))
struct LongReplacedFilesTests {
    @Test("in 200 reloads at each moment of the former watches, no former authority or capability counts again")
    func formerFiles() async throws {
        let files = try await ReplacedFiles()
        let rounds = LongSize.of(200, least: 10)
        var wrong: [String] = []
        for round in 1...rounds {
            wrong += try await files.replace(round, after: .milliseconds(5_000 * round / rounds))
        }
        print("\(rounds) rounds, \(15 * rounds) calls: \(wrong.count) wrong")
        #expect(wrong == [])
    }
}
