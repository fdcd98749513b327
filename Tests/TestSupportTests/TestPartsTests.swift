import Foundation
import TestSupport
import Testing

/// `deploy/testing/parts.py` with parts that note that they ran: `deploy/test --all`.
@Suite struct TestPartsTests {
    private let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    /// Runs the parts `one` (which fails when it runs first), `two` and `three`.
    ///
    /// - Parameters:
    ///   - options: of `run_all`, in Python.
    ///   - kills: the part that ends the runner.
    /// - Returns: the parts that ran, and the last lines of the output.
    private func run(_ options: String, commit: String = "abc", kills: String = "") async throws -> (
        ran: String, end: [String]
    ) {
        let ran = folder.file("ran")
        try folder.write("ran", "")
        let process = try ServerProcess(
            "/usr/bin/python3",
            [
                "-Bc",
                """
                import os, signal, sys
                sys.path.insert(0, "\(Products.root)/deploy/testing")
                import parts
                from report import Report
                class Usage:
                    def sample(self): return 1.0, 2.0
                class Stages: usage = Usage()
                def part(name):
                    def run(stages):
                        with open("\(ran)", "a") as file: file.write(name + " ")
                        if name == "\(kills)": os.kill(os.getpid(), signal.SIGKILL)
                        stages.report.count(name != "one", name + " is wrong")
                    return name, run
                parts.STATE, parts.commit = "\(folder.file("state"))", lambda: "\(commit)"
                parts.all_parts = lambda: [part("one"), part("two"), part("three")]
                report = Report()
                parts.run_all(Stages(), report, \(options))
                sys.exit(report.finish())
                """,
            ])
        _ = try await process.waitForExit()
        let lines = process.output.split(separator: "\n").map(String.init).filter { !$0.hasSuffix(": 0") }
        return (try String(contentsOfFile: ran, encoding: .utf8), lines.suffix(3))
    }

    @Test("each part has a row with commit, result and figures, and its failures are counted with its name")
    func rows() async throws {
        let (ran, end) = try await run("None, False")
        #expect(ran == "one two three ")
        #expect(end == ["Failed:", "  one: one is wrong", "2 passed, 1 failed"])
    }

    @Test(
        "a run that was killed is continued: the parts of the same commit with a result are counted and do not run again"
    )
    func resumed() async throws {
        #expect(try await run("None, False", kills: "three").ran == "one two three ")
        let (ran, end) = try await run("None, True")
        #expect(ran == "three ")
        #expect(end == ["Failed:", "  one: one is wrong", "2 passed, 1 failed"])
        #expect(try await run("None, True").ran == "")
        #expect(try await run("None, True", commit: "abd").ran == "one two three ")
        #expect(try await run("None, False", commit: "abd").ran == "one two three ")
    }

    @Test("no part starts when the minutes have ended, and the output names those that did not")
    func minutes() async throws {
        let (ran, end) = try await run("0, False")
        #expect(ran == "")
        #expect(end == ["Failed:", "  nothing ran", "0 passed, 1 failed"])
        #expect(try await run("60, True").ran == "one two three ")
    }
}
