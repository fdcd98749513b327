import Foundation
import Glibc
import TestSupport
import Testing

/// `deploy/testing/testrun.py`, with a program in the place of the tests that writes their event stream.
@Suite struct TestRunTests {
    private let folder: TemporaryFolder

    /// The program: `first()`, which does what is given in Python and may call `fail`, then `second()`, which passes.
    init() throws {
        folder = try TemporaryFolder()
        try folder.write(
            "tests.py",
            """
            import json, os, subprocess, sys, time
            alone, own = "--no-parallel" in sys.argv, os.environ["LANYARD_TEST_FOLDER"]
            filters = [sys.argv[index + 1] for index, word in enumerate(sys.argv) if word == "--filter"]
            events = open(sys.argv[sys.argv.index("--event-stream-output-path") + 1], "w")
            def write(record, **payload):
                events.write(json.dumps({"kind": record, "payload": payload}) + "\\n")
                events.flush()
            def event(kind, test, text=None, symbol=None):
                messages = [{"text": text or "", "symbol": symbol}] if symbol else []
                write("event", kind=kind, testID=test, messages=messages, issue={})
            def fail(text="the first expectation"):
                failures.append(text)
                event("issueRecorded", test, text, "fail")
            def note(text):
                with open("\(folder.file("note"))", "a") as file: file.write(text)
            ids = [f"Module.Suite/{name}()/File.swift:1:1" for name in ["first", "second"]]
            ids = [id for id in ids if not filters or any(id.split("/")[1][:-2] in filter for filter in filters)]
            for id in ids: write("test", kind="function", id=id, name=id.split("/")[1])
            status = 0
            for test in ids:
                failures = []
                event("testStarted", test)
                if "first" in test: exec(sys.argv[1])
                event("testEnded", test, "", "fail" if failures else "pass")
                if failures: status = 1
            event("runEnded", None)
            sys.exit(status)
            """)
    }

    private func start(_ first: String = "", _ options: [String] = []) throws -> ServerProcess {
        try ServerProcess(
            "/usr/bin/python3",
            ["-B", Products.root + "/deploy/testing/testrun.py", "--name", "run", "--folder", folder.path] + options
                + ["--", "/usr/bin/python3", folder.file("tests.py"), first])
    }

    /// What the run says at its end: the lines from the first title on.
    private func result(_ first: String = "", _ options: [String] = []) async throws -> [String] {
        let run = try start(first, options)
        let exit = try await run.waitForExit()
        let lines = run.output.split(separator: "\n").map(String.init)
        let end = try #require(lines.firstIndex { !$0.hasPrefix(" ") }, "\(run.log)\(run.output)")
        #expect(exit == .code(lines.last?.hasSuffix(" 0 failed") == true ? 0 : 1), "\(run.log)")
        // Counts of nothing say nothing here.
        return lines[end...].filter { !$0.hasSuffix(": 0") && !$0.hasSuffix(":") }
    }

    @Test(
        "a test that fails beside others and passes alone is counted as passed, and is flaky or, if only waits failed, slow"
    )
    func passedAlone() async throws {
        #expect(
            try await result("if not alone: fail()") == [
                "  flaky: run: first(): the first expectation", "flaky: 1", "2 passed, 0 failed",
            ])
        #expect(
            try await result("if not alone: fail('no line: patience ran out after 60 s')") == [
                "  slow: run: first(): no line: patience ran out after 60 s", "slow: 1", "2 passed, 0 failed",
            ])
        #expect(
            try await result("if not alone: fail('Time limit was exceeded: 60.000 seconds')") == [
                "  slow: run: first(): Time limit was exceeded: 60.000 seconds", "slow: 1", "2 passed, 0 failed",
            ])
        #expect(
            try await result("if not alone: fail('patience ran out'); fail('three, not two')") == [
                "  flaky: run: first(): patience ran out", "flaky: 1", "2 passed, 0 failed",
            ])
    }

    @Test("a test that fails twice is a failure, and its second run has three times the patience")
    func failedTwice() async throws {
        #expect(
            try await result("fail('patience ' + os.environ.get('LANYARD_TEST_PATIENCE', '1'))") == [
                "  run: first(): patience 3", "1 passed, 1 failed",
            ])
    }

    @Test("a test whose program crashed has no second run, however it passes alone")
    func crashOfProgram() async throws {
        #expect(
            try await result("note('.')\nif not alone: fail('lanyard ended (signal(6)) without event')") == [
                "  run: first(): lanyard ended (signal(6)) without event", "1 passed, 1 failed",
            ])
        #expect(try String(contentsOfFile: folder.file("note"), encoding: .utf8) == ".")
    }

    @Test("after a crash of the test program the tests that had not begun run, and the crash is a failure")
    func crash() async throws {
        #expect(
            try await result("os.abort()") == [
                "  run: the test program crashed or ended early (status -6); running: first()", "1 passed, 1 failed",
            ])
    }

    @Test("a sanitizer's report is a failure, whatever passed")
    func report() async throws {
        let report = folder.file("report.1")
        #expect(
            try await result("open('\(report)', 'w').close()", ["--reports", folder.file("report.*")]) == [
                "  run: a sanitizer reported: \(report)", "2 passed, 1 failed",
            ])
    }

    @Test("a test in quarantine runs and is counted apart; a list that is too long or has no date is a failure")
    func quarantine() async throws {
        let list = try folder.write("quarantine", "# The reason\nSuite/first | 2026-01-31 | what failed\n")
        #expect(
            try await result("fail()", ["--quarantine", list]) == [
                "  run: first(): failed: the first expectation", "quarantined: 1", "1 passed, 0 failed",
            ])
        let entries =
            (1...11).map { "Suite/test\($0) | 2026-01-31 | what failed" } + ["Suite/test | soon | what failed"]
        try folder.write("quarantine", entries.joined(separator: "\n"))
        #expect(
            try await result("", ["--quarantine", list]) == [
                "  \(list): no name, date and first failure (`Suite/function | 2026-01-31 | text`): "
                    + "Suite/test | soon | what failed",
                "  \(list): 12 entries, and 10 at most", "2 passed, 2 failed",
            ])
    }

    @Test("a test that computes for longer than the standstill's time is waited for; one that sleeps is a standstill")
    func standstill() async throws {
        let computes = "end = time.process_time() + 2.5\nwhile time.process_time() < end: pass"
        #expect(try await result(computes, ["--standstill", "2"]) == ["2 passed, 0 failed"])
        let lines = try await result("time.sleep(3600)", ["--standstill", "1"])
        #expect(lines.first?.hasPrefix("  run: it stood still; running: first(); its threads: 1 ") == true, "\(lines)")
        #expect(lines.last == "1 passed, 1 failed")
    }

    @Test("a run that leaves nothing in its temporary folder is passed, and the folder is removed")
    func clean() async throws {
        let first = """
            assert own == os.environ["TMPDIR"] and len(own) < 20 and os.stat(own).st_mode & 0o777 == 0o711
            note(own)
            """
        #expect(try await result(first) == ["2 passed, 0 failed"])
        let own = try String(contentsOfFile: folder.file("note"), encoding: .utf8)
        #expect(!own.isEmpty && access(own, F_OK) != 0)
    }

    @Test("files that a run leaves behind are named, a failure, and removed")
    func leftBehind() async throws {
        let first = """
            os.mkdir(own + "/some")
            open(own + "/some/token", "w").close()
            os.chmod(own + "/some", 0)
            note(own)
            """
        #expect(
            try await result(first) == [
                "  run: left behind in the temporary folder: some (token)", "2 passed, 1 failed",
            ])
        let own = try String(contentsOfFile: folder.file("note"), encoding: .utf8)
        #expect(!own.isEmpty && access(own, F_OK) != 0)
    }

    @Test("a process that a run leaves behind is named, a failure, and ended")
    func leftRunning() async throws {
        let lines = try await result("note(str(subprocess.Popen(['sleep', '3600']).pid))")
        #expect(lines == ["  run: left running: sleep 3600", "2 passed, 1 failed"])
        let pid = try #require(pid_t(String(contentsOfFile: folder.file("note"), encoding: .utf8)))
        try await eventually("it has ended") { kill(pid, 0) != 0 }
    }

    @Test(
        "a runner that is ended ends the tests and removes its temporary folder; after SIGKILL the next run removes it")
    func ended() async throws {
        for (signal, exit) in [(SIGTERM, ServerProcess.Exit.code(143)), (SIGKILL, .signal(9))] {
            let place = folder.file("place-\(signal)")
            let run = try start(
                """
                open("\(place).new", "w").write(f"{own} {os.getpid()}")
                os.rename("\(place).new", "\(place)")
                time.sleep(3600)
                """)
            try await eventually("the test runs") { access(place, F_OK) == 0 }
            run.signal(signal)
            #expect(try await run.waitForExit() == exit)
            let words = try String(contentsOfFile: place, encoding: .utf8).split(separator: " ").map(String.init)
            let pid = try #require(pid_t(words[1]))
            try await eventually("the tests have ended") { kill(pid, 0) != 0 }
            if signal == SIGKILL { #expect(try await result() == ["2 passed, 0 failed"]) }
            #expect(access(words[0], F_OK) != 0)
        }
    }

    @Test("of two runs of deploy/test in one folder the second is refused")
    func twice() async throws {
        let command = [
            "-Bc",
            """
            import sys, time
            sys.path.insert(0, "\(Products.root)/deploy/testing")
            import lock
            held = lock.acquire("\(folder.file("lock"))")
            print("held" if held else "refused", flush=True)
            time.sleep(3600 if held else 0)
            """,
        ]
        let first = try ServerProcess("/usr/bin/python3", command)
        try await eventually("the first has the lock") { first.output == "held\n" }
        let second = try ServerProcess("/usr/bin/python3", command)
        #expect(try await second.waitForExit() == .code(0))
        #expect(second.output == "refused\n" && second.log.contains("(process \(first.pid))"), "\(second.log)")
        first.signal(SIGKILL)
        #expect(try await first.waitForExit() == .signal(9))
        let third = try ServerProcess("/usr/bin/python3", command)
        try await eventually("the third has the lock") { third.output == "held\n" }
    }
}
