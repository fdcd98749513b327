import Dispatch
import Foundation
import Glibc
import LanyardFoundations
import Testing

@testable import TestSupport

/// The clock by a program that is not ours: Python reads the time, sleeps and waits by the same calls of libc.
@Suite(.enabled(if: access("/usr/bin/python3", X_OK) == 0, "needs Python"))
struct TestClockTests {
    private static let python = "/usr/bin/python3"

    /// Starts a script; `say(event)` prints a log line with the time since its start.
    private static func start(_ script: String, under clock: TestClock) async throws -> ServerProcess {
        let preface = """
            import json, os, signal, sys, threading, time
            start = time.monotonic()
            def say(event):
                os.write(2, (json.dumps({"event": event, "after": time.monotonic() - start}) + "\\n").encode())
            say("started")

            """
        let process = try ServerProcess(python, ["-c", preface + script], under: clock)
        try await process.event("started")
        return process
    }

    @Test("a sleep and a limited wait of an hour end when an hour has passed, and not before")
    func hour() async throws {
        let clock = try TestClock()
        let sleeper = try await Self.start("time.sleep(3600)\nsay('woke')", under: clock)
        let waiter = try await Self.start(
            "lock = threading.Lock()\nlock.acquire()\nlock.acquire(timeout=3600)\nsay('woke')", under: clock)
        try await clock.settle()
        try await clock.pass(.seconds(3599) - clock.elapsed)
        #expect(sleeper.lines.count == 1 && waiter.lines.count == 1)
        try await clock.pass(.seconds(61))
        for process in [sleeper, waiter] {
            let after = try await process.event("woke")["after"].double ?? 0
            // Not at the end of what was passed: at its own deadline.
            #expect(3600..<3600.1 ~= after, "\(after)")
            #expect(try await process.waitForExit() == .code(0))
        }
    }

    @Test("deadlines of two programs are met in their order, each at its time")
    func order() async throws {
        let clock = try TestClock()
        let folder = try TemporaryFolder()
        let file = folder.file("turns")
        func script(_ name: String, _ pause: Int) -> String {
            "for turn in range(50):\n time.sleep(\(pause))\n open('\(file)', 'a').write('\(name)')\nsay('done')"
        }
        clock.stop()
        let processes = [
            try ServerProcess(Self.python, ["-c", "import time\ndef say(_): pass\n" + script("a", 20)], under: clock),
            try ServerProcess(Self.python, ["-c", "import time\ndef say(_): pass\n" + script("b", 30)], under: clock),
        ]
        try await eventually("both sleep") {
            processes.allSatisfy { Set($0.threadStates) == ["S"] && $0.threadCount == 2 }
        }
        try await clock.pass(.seconds(115))
        // At 20, 30, 40, 60, 80, 90 and 100 s; at 60 s both, in either order.
        let text = try String(contentsOfFile: file, encoding: .utf8)
        #expect(["abaababa", "ababaaba"].contains(text), "\(text)")
    }

    @Test("a stopped clock stands, and a running one runs from there")
    func stands() async throws {
        let clock = try TestClock()
        clock.stop()
        // The wait for its first line passes a few milliseconds.
        let process = try await Self.start("time.sleep(0.5)\nsay('woke')", under: clock)
        let elapsed = clock.elapsed
        try await clock.settle()
        #expect(process.lines.count == 1 && clock.elapsed == elapsed)
        clock.run()
        try await process.event("woke")
        #expect(clock.elapsed > elapsed)
    }

    @Test("a wait for a line passes the 2 ms before it, and no time while the program waits for something else")
    func lines() async throws {
        let clock = try TestClock()
        let process = try await Self.start(
            """
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
            signal.sigwait([signal.SIGUSR1])
            time.sleep(0.002)
            say('woke')
            """, under: clock)
        try await clock.settle()
        clock.stop()
        let before = clock.elapsed
        for _ in 0..<20 { try await clock.passLogDelay() }
        #expect(clock.elapsed == before)
        process.signal(SIGUSR1)
        try await process.event("woke")
        #expect(clock.elapsed - before == .milliseconds(3))
        #expect(try await process.waitForExit() == .code(0))
    }

    @Test("a killed program's deadlines are forgotten, and a child has its own")
    func endings() async throws {
        let clock = try TestClock()
        let killed = try await Self.start("time.sleep(5)", under: clock)
        clock.stop()
        try await clock.settle()
        killed.signal(SIGKILL)
        try await killed.waitForExit()
        let parent = try await Self.start(
            """
            if os.fork() == 0:
                time.sleep(1800)
                say("child woke")
                os._exit(0)
            os.wait()
            say("child ended")
            """, under: clock)
        try await clock.pass(.seconds(1799))
        #expect(parent.lines.count == 1)
        try await clock.pass(.seconds(1))
        try await parent.event("child woke")
        try await parent.event("child ended")
    }

    @Test("no time passes before a thread sleeps that a watched thread has started")
    func peers() async throws {
        let clock = try TestClock()
        let peers = PeerThreads()
        clock.watch(peers)
        let isDone = Guarded(false)
        let end = DispatchSemaphore(value: 0)
        peers.start {
            peers.start {
                // Some ten milliseconds of work: longer than `settle` needs to find two threads asleep.
                var sum = 0
                for number in 0..<2_000_000 { sum &+= number }
                isDone.withLock { $0 = sum > 0 }
                end.wait()
            }
            end.wait()
        }
        try await clock.settle()
        #expect(isDone.withLock { $0 })
        end.signal()
        end.signal()
    }
}
