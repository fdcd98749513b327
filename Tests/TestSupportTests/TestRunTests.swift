import Foundation
import Glibc
import TestSupport
import Testing

/// `deploy/testrun.py`, with a program in the place of the tests that writes their event stream.
@Suite(.timeLimit(minutes: 1)) struct TestRunTests {
    private let folder: TemporaryFolder

    /// The program: one test, which fails if it runs `beside` others, or `always`; what else it does is Python.
    init() throws {
        folder = try TemporaryFolder()
        try folder.write(
            "tests.py",
            """
            import json, os, sys, time
            beside, more = sys.argv[1], sys.argv[2]
            place = "Module.Suite/function()/File.swift:1:1"
            events = open(sys.argv[sys.argv.index("--event-stream-output-path") + 1], "w")
            def write(record, **payload):
                events.write(json.dumps({"kind": record, "payload": payload}) + "\\n")
                events.flush()
            def event(kind, symbol=None, **more):
                messages = [{"text": "the first expectation", "symbol": symbol}] if symbol else []
                write("event", kind=kind, testID=place, messages=messages, **more)
            fails = beside == "always" or beside == "fails" and "--no-parallel" not in sys.argv
            write("test", kind="function", id=place, name="function()")
            event("testStarted")
            exec(more)
            if fails: event("issueRecorded", "fail", issue={})
            event("testEnded", "fail" if fails else "pass")
            event("runEnded")
            sys.exit(1 if fails else 0)
            """)
    }

    private func start(
        beside: String = "passes", doing more: String = "", _ options: [String] = [], serial: Bool = false
    ) throws -> ServerProcess {
        try ServerProcess(
            "/usr/bin/python3",
            [Products.root + "/deploy/testrun.py", "--name", "run", "--limit", "20", "--folder", folder.path] + options
                + ["--", "/usr/bin/python3", folder.file("tests.py"), beside, more]
                + (serial ? ["--no-parallel"] : []))
    }

    /// The lines of the tally when the run has ended.
    private func tally(of run: ServerProcess) async throws -> [String] {
        #expect(try await run.waitForExit() == .code(0), "\(run.log)")
        return try String(contentsOfFile: folder.file("tally"), encoding: .utf8).split(separator: "\n").map(String.init)
    }

    @Test("a test that fails beside others and passes alone is counted as passed, and named as flaky with its reason")
    func flaky() async throws {
        #expect(
            try await tally(of: start(beside: "fails", ["--again"])) == [
                "1 0", "~ run: function(): the first expectation",
            ])
    }

    @Test("without a second run it is counted as failed")
    func once() async throws {
        #expect(
            try await tally(of: start(beside: "fails")) == ["0 1", "# run: ✘ function(): the first expectation"])
    }

    @Test("a test that ran alone and took longer than the time that is left is not run again")
    func noTime() async throws {
        let run = try start(beside: "always", doing: "time.sleep(6)", ["--again", "--limit", "10"], serial: true)
        #expect(try await tally(of: run) == ["0 1", "# run: ✘ function(): the first expectation"])
        #expect(run.output.contains("not run again, for want of time"), "\(run.output)")
    }

    @Test("a run that leaves nothing in its temporary folder is passed, and the folder is removed")
    func clean() async throws {
        let more = """
            own = os.environ["LANYARD_TEST_FOLDER"]
            assert own == os.environ["TMPDIR"] and len(own) < 20 and os.stat(own).st_mode & 0o777 == 0o711
            open("\(folder.file("own"))", "w").write(own)
            """
        #expect(try await tally(of: start(doing: more)) == ["1 0"])
        let own = try String(contentsOfFile: folder.file("own"), encoding: .utf8)
        #expect(!own.isEmpty && access(own, F_OK) != 0)
    }

    @Test("what a run leaves behind is named, counted as failed, and removed")
    func leftBehind() async throws {
        let more = """
            own = os.environ["LANYARD_TEST_FOLDER"]
            os.mkdir(own + "/some")
            open(own + "/some/token", "w").close()
            os.chmod(own + "/some", 0)
            open("\(folder.file("own"))", "w").write(own)
            """
        #expect(
            try await tally(of: start(doing: more)) == [
                "1 1", "# run: ✘ left behind in the temporary folder: some (token)",
            ])
        let own = try String(contentsOfFile: folder.file("own"), encoding: .utf8)
        #expect(!own.isEmpty && access(own, F_OK) != 0)
    }

    @Test(
        "a run that is ended from outside, or whose time is up, removes its temporary folder", arguments: [true, false])
    func ended(_ bySignal: Bool) async throws {
        let more = """
            own = os.environ["LANYARD_TEST_FOLDER"]
            os.mkdir(own + "/some")
            open("\(folder.file("begun"))", "w").write(own)
            os.rename("\(folder.file("begun"))", "\(folder.file("own"))")
            time.sleep(60)
            """
        let run = try start(doing: more, bySignal ? [] : ["--standstill", "1"])
        try await eventually("it stands still") { access(folder.file("own"), F_OK) == 0 }
        if bySignal { run.signal(SIGTERM) }
        #expect(try await run.waitForExit() == .code(bySignal ? 143 : 0))
        #expect(access(try String(contentsOfFile: folder.file("own"), encoding: .utf8), F_OK) != 0)
    }
}
