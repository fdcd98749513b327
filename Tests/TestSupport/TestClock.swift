import ClockPage
import Foundation
import Glibc
import LanyardFoundations

/// The clock of the programs that a test starts with it: the library `VirtualClock`, preloaded.
///
/// The clock runs until the test stops it. Then it stands: no limit in any of its programs can end except by `pass`, so a slow machine
/// changes nothing. Make it before the processes and give it to each of them. Tests/VirtualClock/virtual_clock.c says what
/// follows the clock and what does not. The test's own sleeps and limits do not.
///
/// Lanyard takes a step of more than 5 s beyond its next deadline (`grain`) for a resume of the machine, and re-evaluates its sessions.
///
/// A timer test has time-outs of a minute: `stop`, the event that begins the time, `pass` to a second before its end, nothing has happened,
/// `pass` the second, it has happened. A loop of Lanyard meets a deadline up to 20 ms late, so the test passes a second, not an instant.
package final class TestClock: Sendable {
    private let folder: TemporaryFolder
    private nonisolated(unsafe) let page: UnsafeMutablePointer<clock_page>
    private let library: String
    private let peers = Guarded<[PeerThreads]>([])

    /// - Parameter wallDelay: the programs' wall time is so much earlier than the machine's. A test that passes time and writes files needs
    ///   it: the machine stamps files, and their age would grow with the time that passes.
    /// - Throws: `TestFailure` if the library has not been built.
    package init(wallDelay: Duration = .zero) throws {
        library = try Products.library("libVirtualClock.so")
        folder = try TemporaryFolder(shared: true)
        let path = folder.file("clock")
        let file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o666)
        defer { close(file) }
        let size = MemoryLayout<clock_page>.size
        // Programs may run as another Unix user.
        guard file >= 0, fchmod(file, 0o666) == 0, ftruncate(file, size) == 0,
            let memory = mmap(nil, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0), memory != MAP_FAILED
        else { throw TestFailure("the clock's page: errno \(errno)") }
        page = memory.bindMemory(to: clock_page.self, capacity: 1)
        clock_page_begin(page)
        page.pointee.realtime -= wallDelay.nanoseconds
    }

    deinit { munmap(page, MemoryLayout<clock_page>.size) }

    /// The variables of a program under this clock.
    ///
    /// - Parameter libraries: further ones to preload.
    package func environment(preloading libraries: [String] = []) -> [String: String] {
        [
            "LD_PRELOAD": (libraries + [library]).joined(separator: ":"),
            String(cString: clock_page_variable()): folder.file("clock"),
        ]
    }

    /// Threads of this process that stand between the clock's programs, such as a relay's. No time passes before they sleep, too.
    package func watch(_ threads: PeerThreads) { peers.withLock { $0.append(threads) } }

    // MARK: The time

    /// The time since the clock was made.
    package var elapsed: Duration { .nanoseconds(clock_page_now(page)) }
    /// The wall time that the programs see, in seconds since 1970.
    package var now: Double { Double(page.pointee.realtime + clock_page_now(page)) / 1e9 }

    private var isRunning: Bool { clock_page_runs(page) != 0 }

    /// Lanyard's log thread looks for lines every 2 ms while some come, and waits without a limit otherwise. If the clock stands and a
    /// deadline is so near, the time to it passes. How often a test looks for a line does not matter: without new lines no time passes.
    func passLogDelay() async throws {
        guard !isRunning else { return }
        try settleBlocking()
        let delay = Duration.milliseconds(3)
        guard clock_page_next(page) - clock_page_now(page) <= delay.nanoseconds else { return }
        try await pass(delay)
    }

    /// From now on time passes only by `pass`. If the clock ran, it stands 50 ms later than it is: Lanyard shows a health page again for
    /// three times what it cost to make, and one made just before would be shown as long as the clock stands.
    package func stop() {
        let shown = isRunning ? Duration.milliseconds(50) : .zero
        clock_page_set(page, clock_page_now(page) + shown.nanoseconds, 0)
    }

    /// From now on time passes as it does outside: to start a program, or to wait for one that is not under the clock.
    package func run() { clock_page_set(page, clock_page_now(page), 1) }

    /// Waits until every thread of every program under the clock sleeps, and every watched thread of this process: what they had begun is
    /// done.
    ///
    /// - Throws: `TestFailure` with the threads that do not sleep.
    package func settle() async throws { try settleBlocking() }

    /// Passes time, from deadline to deadline of the programs: at each it waits until they sleep. A clock that ran runs again afterwards.
    ///
    /// - Parameters:
    ///   - duration: the time to pass.
    ///   - grain: deadlines nearer to one another than this are met in one step, so some are met late by as much. For long times, as
    ///     Lanyard looks at each secret file every 2 s, and for a condition that makes a request, as each sets a timer of 20 ms.
    ///   - body: called after each step, while the clock stands.
    package func pass(
        _ duration: Duration, grain: Duration = .zero, atEachStep body: (() async throws -> Void)? = nil
    ) async throws {
        let wasRunning = isRunning
        clock_page_set(page, clock_page_now(page), 0)
        defer { if wasRunning { run() } }
        let end = clock_page_now(page) + duration.nanoseconds
        try settleBlocking()
        while try step(to: end, grain) {
            guard let body else { continue }
            try await body()
            try settleBlocking()
        }
    }

    /// The same beside programs that have the machine's clock, such as a peer in Python.
    ///
    /// - Parameter process: such a program and, behind it, those that talk to it. At each step nothing is on its way between them.
    package func pass(
        _ duration: Duration, whenSettled process: ServerProcess, _ others: ServerProcess...
    ) async throws {
        let processes = [process] + others
        try await settled(processes)
        try await pass(duration, atEachStep: { try await settled(processes) })
    }

    /// Passes time from deadline to deadline until `condition` is true, for waits whose length the program chooses.
    ///
    /// - Parameters:
    ///   - limit: of the programs' time.
    ///   - grain: as in `pass`.
    /// - Throws: `TestFailure` when so much time has passed and patience ran out, or the error of `condition`.
    package func pass(
        until what: String, atMost limit: Duration = .seconds(86_400), grain: Duration = .zero,
        _ condition: () async throws -> Bool
    ) async throws {
        let wasRunning = isRunning
        stop()
        defer { if wasRunning { run() } }
        let end = clock_page_now(page) + limit.nanoseconds
        try await settle()
        while try await !condition() {
            // A condition may make a request.
            try settleBlocking()
            guard try step(to: end, grain) else {
                // What the programs did in that time may not be noticed yet, such as an exit.
                return try await eventually("within \(limit) of the clock: \(what)", condition)
            }
        }
    }

    /// While all sleep: passes the time to the next deadline, at most to `end`, and waits until they sleep again.
    ///
    /// - Returns: false at `end`.
    private func step(to end: Int64, _ grain: Duration) throws -> Bool {
        let now = clock_page_now(page)
        guard now < end else { return false }
        clock_page_advance(page, min(end, max(clock_page_next(page), now + max(grain.nanoseconds, 1))))
        try settleBlocking()
        return true
    }

    private func settleBlocking() throws {
        let patience = Patience()
        // In between it waits shorter than `blockUntil`: a long time has thousands of steps.
        var pause: UInt32 = 20
        while !isSettled {
            guard !patience.isExhausted else {
                throw patience.failure("every thread under the clock sleeps:\n\(threads)")
            }
            usleep(pause)
            pause = min(2 * pause, 400)
        }
    }

    private var isSettled: Bool {
        guard clock_page_is_followed(page) != 0 else { return false }
        let groups = peers.withLock { $0.map(\.group) }
        // A thread that a peer has just made may not run yet. The next look finds it.
        guard groups.allSatisfy({ $0.starting == 0 }) else { return false }
        let own = groups.flatMap(\.threads)
        return clock_page_is_quiet(page, own, CInt(own.count)) != 0 && peers.withLock { $0.map(\.group) } == groups
    }

    /// Each thread with its state and where it waits.
    private var threads: String {
        var text = [CChar](repeating: 0, count: 65536)
        clock_page_describe(page, &text, CInt(text.count))
        return String(decoding: text.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
    }
}

/// The threads of a test's peer, such as a `FaultGate`, by the kernel's ids. A `TestClock` watches them.
package final class PeerThreads: Sendable {
    struct Group: Equatable {
        /// The threads that run now.
        var threads: Set<pid_t> = []
        /// Threads that have been started and do not run yet.
        var starting = 0
        /// Threads so far. Two looks with the same number have the same threads, except for those that have ended.
        var started = 0
    }

    private let state = Guarded(Group())

    package init() {}

    var group: Group { state.withLock { $0 } }

    /// Starts a thread that belongs to the peer.
    package func start(_ work: @escaping @Sendable () -> Void) {
        // It counts from here on. A clock that saw it only when it runs would let time pass before.
        state.withLock {
            $0.starting += 1
            $0.started += 1
        }
        Thread.detachNewThread { [self] in
            let own = clock_page_thread()
            state.withLock {
                $0.starting -= 1
                $0.threads.insert(own)
            }
            work()
            state.withLock { _ = $0.threads.remove(own) }
        }
    }
}
