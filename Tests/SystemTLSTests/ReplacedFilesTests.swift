import TestSupport
import Testing

@testable import SystemTestSupport

/// The files of a replaced configuration (architecture-control.md 7.9).
@Suite(.enabled(if: PythonProcess.isInstalled, "needs /usr/bin/python3"))
struct ReplacedFilesTests {
    @Test(
        "former authority and capability, and what comes into their files during the reload, count never again behind it"
    )
    func formerFiles() async throws {
        let files = try await ReplacedFiles()
        // The whole time that the watches of the former files take for a change, in steps.
        for round in 1...10 {
            let wrong = try await files.replace(round, after: .milliseconds(500 * round))
            #expect(wrong == [])
        }
    }
}
