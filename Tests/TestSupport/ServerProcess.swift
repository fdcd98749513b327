import Foundation
import Glibc
import LanyardFoundations

/// A program that a test starts and ends, usually a product from the build folder.
///
/// Its environment is exactly the given one. stderr is read line by line as it arrives. On `deinit` the process is killed by its pid and
/// reaped. If the tests die, the kernel kills it.
package final class ServerProcess: Sendable {
    /// The Unix user of the process.
    package enum UnixUser: Sendable {
        case same
        /// uid and gid 65534 without further groups if the tests run as root; else as `same`.
        case nobody
    }

    /// Its standard input.
    package enum Input: Sendable {
        /// /dev/null.
        case none
        case file(String)
        /// A terminal of its own, which controls it. With `showsOutput` its output goes there, too.
        case terminal(PseudoTerminal, showsOutput: Bool = false)
    }

    /// How it ended.
    package enum Exit: Equatable, Sendable { case code(Int), signal(Int) }

    private struct State {
        var exit: Exit?
        var lines: [LogLine] = []
        var output: [UInt8] = []
        /// The start of a line that is not complete yet.
        var partial: [UInt8] = []
        /// How many of stderr and stdout have not ended.
        var streamsOpen = 2
        /// The reading ends of the pipes; nil: the stream has ended.
        var errors: CInt?
        var standardOutput: CInt?
    }

    /// Its process id. It may belong to another process after the exit.
    package let pid: pid_t
    private let name: String
    /// Its clock; nil: it has real time.
    let clock: TestClock?
    private let state: Shared
    private final class Shared: Sendable { let box = Guarded(State()) }

    /// Starts `program`: the name of a product of this package, or a path.
    ///
    /// - Parameters:
    ///   - environment: the whole environment except a sanitizer's options. PATH is set to the system's folders if absent.
    ///   - clock: its clock; nil: it has real time.
    ///   - cpus: a CPU list for taskset (`0`, `0-1`); nil: the affinity is not changed.
    package init(
        _ program: String, _ arguments: [String] = [], environment: [String: String] = [:],
        under clock: TestClock? = nil, as account: UnixUser = .same,
        cpus: String? = nil, input: Input = .none
    ) throws {
        name = program
        self.clock = clock
        var command = ["/usr/bin/setpriv", "--pdeathsig", "KILL"]
        if case .nobody = account, getuid() == 0 { command += ["--reuid=65534", "--regid=65534", "--clear-groups"] }
        if let cpus { command += ["/usr/bin/taskset", "-c", cpus] }
        // Not into setpriv: the clock's thread would be its second one. libc sets the user in both, and only the first keeps its
        // capabilities in between.
        let preloading = (clock?.environment() ?? [:])
            .merging(try Jitter.variables(for: [program] + arguments)) { "\($1):\($0)" }
        if !preloading.isEmpty { command += ["/usr/bin/env"] + preloading.map { "\($0)=\($1)" } }
        command += [program.contains("/") ? program : try Products.path(program)] + arguments
        let standard = Sanitizer.options.merging(["PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"]) { $1 }
        let environment = environment.merging(standard) { own, _ in own }
        let child = try Spawner.shared.spawn(
            command, environment: environment.map { "\($0)=\($1)" }, input: input)
        pid = child.pid
        let state = Shared()
        state.box.withLock { ($0.errors, $0.standardOutput) = (child.errors, child.output) }
        self.state = state
        Thread.detachNewThread {
            Self.read(child.errors, into: state) {
                Self.split($1, into: &$0)
            } done: {
                $0.errors = nil
                Self.end(&$0)
            }
        }
        Thread.detachNewThread {
            Self.read(child.output, into: state) {
                $0.output += $1
            } done: {
                $0.standardOutput = nil
                $0.streamsOpen -= 1
            }
        }
        let pid = pid
        Thread.detachNewThread { Self.reap(pid, state) }
    }

    /// All complete lines of stderr so far.
    package var lines: [LogLine] { state.box.withLock { $0.lines } }
    /// All lines as text, for the message of a failure.
    package var log: String { lines.map(\.text).joined(separator: "\n") }
    /// The lines with events of this prefix, as text, for the message of a failure.
    package func log(of events: String) -> String {
        lines.filter { $0.event?.hasPrefix(events) == true }.map(\.text).joined(separator: "\n")
    }

    /// Whether everything that it has written is in `lines` and `output`.
    var hasReadAll: Bool {
        state.box.withLock { state in
            [state.errors, state.standardOutput].allSatisfy { descriptor in
                var waiting: CInt = 0
                guard let descriptor, ioctl(descriptor, UInt(FIONREAD), &waiting) == 0 else { return true }
                return waiting == 0
            }
        }
    }

    /// stdout so far.
    package var output: String { String(decoding: state.box.withLock { $0.output }, as: UTF8.self) }
    /// Its exit; nil while it runs.
    package var exit: Exit? { state.box.withLock { $0.exit } }

    /// The first line with this event that `matches`. While it waits for that, a clock that stands passes a few milliseconds.
    ///
    /// - Throws: `TestFailure` with the whole log if the line does not arrive or the process ends first.
    @discardableResult
    package func event(
        _ event: String, where matches: (JSON) -> Bool = { _ in true }
    ) async throws -> JSON {
        let patience = Patience()
        while true {
            let isLast = patience.isExhausted
            let ended = state.box.withLock { $0.exit != nil && $0.streamsOpen == 0 }
            if let line = lines.first(where: { $0.event == event && matches($0.json) }) { return line.json }
            if ended {
                throw TestFailure("\(name) ended (\(exit!)) without event \(event); it said:\n\(log)\n\(output)")
            }
            guard !isLast else {
                throw patience.failure("\(name): no event \(event); it said:\n\(log)\n\(output)")
            }
            try await Task.sleep(for: .milliseconds(5))
            try await clock?.passLogDelay()
        }
    }

    /// Waits until what it had begun is done and read (`settled(_:)` for several processes at once).
    package func settle() async throws { try await settled(self) }

    /// Waits for its end and reads both streams to their ends.
    @discardableResult
    package func waitForExit() async throws -> Exit {
        try await eventually("\(name) ends; it said:\n\(log)") {
            state.box.withLock { $0.exit != nil && $0.streamsOpen == 0 }
        }
        return exit!
    }

    /// Sends a signal. After the exit it does nothing, so it never signals another process with the same pid.
    package func signal(_ signal: CInt) {
        state.box.withLock { if $0.exit == nil { kill(pid, signal) } }
    }

    /// Sends SIGTERM and waits for the end.
    @discardableResult
    package func terminate() async throws -> Exit {
        signal(SIGTERM)
        return try await waitForExit()
    }

    /// Resident memory in bytes (`VmRSS`); 0 after the exit.
    package var residentBytes: Int {
        guard let status = try? String(contentsOfFile: "/proc/\(pid)/status", encoding: .utf8),
            let line = status.split(separator: "\n").first(where: { $0.hasPrefix("VmRSS:") }),
            let kilobytes = line.split(separator: " ").dropFirst().first.flatMap({ Int($0) })
                ?? line.split(whereSeparator: { $0 == " " || $0 == "\t" }).dropFirst().first.flatMap({ Int($0) })
        else { return 0 }
        return kilobytes * 1024
    }

    /// The number of threads; 0 after the exit.
    package var threadCount: Int {
        (try? FileManager.default.contentsOfDirectory(atPath: "/proc/\(pid)/task").count) ?? 0
    }

    /// The state of each thread in the kernel's letters: `S` sleeps, `T` is stopped by a signal (proc_pid_stat(5)).
    package var threadStates: [String] {
        let tasks = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/\(pid)/task")) ?? []
        return tasks.compactMap { task in
            let stat = try? String(contentsOfFile: "/proc/\(pid)/task/\(task)/stat", encoding: .utf8)
            // The state is after the name, which is in parentheses and may hold any byte.
            return stat?.split(separator: ")").last?.split(separator: " ").first.map(String.init)
        }
    }

    deinit { signal(SIGKILL) }

    /// Reads to the end of the stream. What has left the pipe is in the state as soon as its lock is free (`settled`).
    private static func read(
        _ descriptor: CInt, into state: Shared, each: (inout State, [UInt8]) -> Void, done: (inout State) -> Void
    ) {
        var buffer = [UInt8](repeating: 0, count: 65536)
        var hasEnded = false
        while !hasEnded {
            var entry = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
            guard poll(&entry, 1, -1) > 0 else { continue }
            hasEnded = state.box.withLock { state in
                let count = Glibc.read(descriptor, &buffer, buffer.count)
                if count > 0 { each(&state, Array(buffer[..<count])) }
                guard count == 0 || (count < 0 && errno != EINTR) else { return false }
                done(&state)
                return true
            }
        }
        close(descriptor)
    }

    private static func split(_ bytes: [UInt8], into state: inout State) {
        state.partial += bytes
        while let newline = state.partial.firstIndex(of: 10) {
            state.lines.append(LogLine(String(decoding: state.partial[..<newline], as: UTF8.self)))
            state.partial.removeFirst(newline + 1)
        }
    }

    private static func end(_ state: inout State) {
        if !state.partial.isEmpty { state.lines.append(LogLine(String(decoding: state.partial, as: UTF8.self))) }
        state.partial = []
        state.streamsOpen -= 1
    }

    /// Waits without reaping first, and reaps under the lock that `signal` takes. The pid stays reserved until then.
    private static func reap(_ pid: pid_t, _ state: Shared) {
        var information = siginfo_t()
        while waitid(P_PID, id_t(pid), &information, WEXITED | WNOWAIT) != 0 && errno == EINTR {}
        state.box.withLock { state in
            var status: CInt = 0
            waitpid(pid, &status, 0)
            state.exit = status & 0x7f == 0 ? .code(Int(status >> 8) & 0xff) : .signal(Int(status & 0x7f))
        }
    }
}
