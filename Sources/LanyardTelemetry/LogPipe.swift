import CLinux
import Dispatch
import Glibc
import LanyardFoundations

/// Carries log lines from any thread through a bounded buffer to standard error, which one thread writes.
///
/// Writing a line never waits for the reader of the log: a line without room is dropped and counted. The thread exists only after `start`
/// (a sandbox binds only threads that begin after it). Before that a line is written at once and waits at most `directTimeout`. The
/// descriptor's flags stay unchanged, because other processes share them.
///
/// `state` is guarded by its lock, held for a copy of one line at most.
package final class LogPipe: Sendable {
    /// Waiting lines in one block of memory. Guarded by the lock of the state that holds it.
    private struct Batch: @unchecked Sendable {
        let bytes: UnsafeMutableRawBufferPointer
        var count = 0

        init(capacity: Int) { bytes = .allocate(byteCount: capacity, alignment: 1) }

        mutating func append(_ line: UnsafeRawBufferPointer) -> Bool {
            guard line.count <= bytes.count - count else { return false }
            UnsafeMutableRawBufferPointer(rebasing: bytes[count...]).copyMemory(from: line)
            count += line.count
            return true
        }
    }

    private struct State: Sendable {
        var filling: Batch
        var draining: Batch
        var isStarted = false
        var isEnding = false
        /// The thread sleeps until it is signalled; otherwise it checks again by itself.
        var isAsleep = false
        var dropped = 0
        var droppedReported = 0
    }

    /// While lines come, the thread checks this often. Then a line costs its shard no system call.
    private static let pollMicroseconds: UInt32 = 2_000
    private static let directTimeout = Duration.seconds(1)
    /// The bytes that a pipe accepts atomically (PIPE_BUF): lines of several processes do not mix up to this size.
    private static let pieceBytes = 4_096

    private let descriptor: CInt
    private let state: Guarded<State>
    private let wakeup = DispatchSemaphore(value: 0)

    /// - Parameters:
    ///   - descriptor: the caller's; it stays open as long as the pipe lives.
    ///   - bytesMax: bytes that may wait, in two halves.
    package init(descriptor: CInt = STDERR_FILENO, bytesMax: Int = 2 << 20) {
        self.descriptor = descriptor
        let half = max(bytesMax / 2, Self.pieceBytes)
        state = Guarded(State(filling: Batch(capacity: half), draining: Batch(capacity: half)))
    }

    deinit {
        state.withLock {
            $0.filling.bytes.deallocate()
            $0.draining.bytes.deallocate()
        }
    }

    /// Lines that were dropped because the reader is slow or gone.
    package var droppedLines: Int { state.withLock { $0.dropped } }

    /// Accepts one line, its newline included. From any thread; returns at once.
    package func write(_ line: UnsafeRawBufferPointer) {
        // Only read, and only during this call.
        nonisolated(unsafe) let line = line
        let (isDirect, wakes) = state.withLock { state -> (Bool, Bool) in
            guard state.isStarted else { return (true, false) }
            if !state.filling.append(line) { state.dropped += 1 }
            let wakes = state.isAsleep
            state.isAsleep = false
            return (false, wakes)
        }
        if wakes { wakeup.signal() }
        if isDirect, !writeDirectly(line) { state.withLock { $0.dropped += 1 } }
    }

    /// The same for a finished document.
    package func write(_ line: JSONWriter) { line.bytes.withUnsafeBytes { write($0) } }

    /// Starts the thread. Once, after the sandbox is in place.
    package func start() {
        state.withLock { $0.isStarted = true }
        let code = DetachedThread.start { [self] in
            lanyard_name_thread("lanyard.log")
            drain()
        }
        // Without a thread each caller writes its own lines: slow output is better than none.
        if code != 0 { state.withLock { $0.isStarted = false } }
    }

    /// Waits until all earlier lines have been written, or `limit` has passed.
    ///
    /// - Returns: whether all of them were written.
    @discardableResult
    package func flush(within limit: Duration) -> Bool {
        let end = Instant.now + limit
        while true {
            let isEmpty = state.withLock { !$0.isStarted || $0.filling.count == 0 && $0.draining.count == 0 }
            if isEmpty { return true }
            guard Instant.now < end else { return false }
            usleep(1_000)
        }
    }

    /// Ends the thread after it has written the waiting lines, and waits for that up to `limit`. Later lines are written at once again.
    package func stop(within limit: Duration = .seconds(1)) {
        state.withLock { state in
            state.isEnding = true
            state.isAsleep = false
        }
        wakeup.signal()
        let end = Instant.now + limit
        while state.withLock({ $0.isStarted }), Instant.now < end { usleep(1_000) }
    }

    // MARK: The thread

    private func drain() {
        while true {
            let (isEmpty, isOver) = state.withLock { state -> (Bool, Bool) in
                swap(&state.filling, &state.draining)
                let isEmpty = state.draining.count == 0
                if isEmpty, state.isEnding { state.isStarted = false }
                state.isAsleep = isEmpty && state.isStarted
                return (isEmpty, !state.isStarted)
            }
            if isOver { return }
            if isEmpty {
                wakeup.wait()
            } else {
                writeBatch()
                usleep(Self.pollMicroseconds)
            }
        }
    }

    /// `draining` is this thread's alone between two swaps, so it is written without the lock.
    private func writeBatch() {
        let batch = state.withLock { $0.draining }
        let lost = writeAll(UnsafeRawBufferPointer(rebasing: batch.bytes[0..<batch.count]))
        let unreported = state.withLock { state -> Int in
            state.dropped += lost
            guard lost == 0 else { return 0 }
            defer { state.droppedReported = state.dropped }
            return state.dropped - state.droppedReported
        }
        if unreported > 0 { reportDropped(unreported) }
        // Only now: `flush` waits for this report, too.
        state.withLock { $0.draining.count = 0 }
    }

    /// Whole lines in pieces that a pipe takes at once. Returns how many lines were lost.
    private func writeAll(_ bytes: UnsafeRawBufferPointer) -> Int {
        var start = 0
        while start < bytes.count {
            var end = min(start + Self.pieceBytes, bytes.count)
            if end < bytes.count, let newline = bytes[start..<end].lastIndex(of: UInt8(ascii: "\n")) {
                end = newline + 1
            }
            let count = Glibc.write(descriptor, bytes.baseAddress! + start, end - start)
            if count > 0 {
                start += count
            } else if errno == EAGAIN {
                // Another process made the shared descriptor non-blocking.
                _ = waitUntilWritable(.seconds(1))
            } else if errno != EINTR {
                return bytes[start...].count { $0 == UInt8(ascii: "\n") }
            }
        }
        return 0
    }

    private func reportDropped(_ count: Int) {
        var line = JSONWriter()
        line.beginObject()
        line.key("time")
        line.time(.now)
        line.key("level")
        line.string("warning")
        line.key("msg")
        line.string("log lines were dropped: the reader of standard error was slow or gone")
        line.key("event")
        line.string("log.dropped")
        line.key("lines")
        line.number(count)
        line.endObject()
        line.newline()
        _ = line.bytes.withUnsafeBytes { writeAll($0) }
    }

    // MARK: Before the thread

    private func writeDirectly(_ line: UnsafeRawBufferPointer) -> Bool {
        waitUntilWritable(Self.directTimeout) && writeAll(line) == 0
    }

    private func waitUntilWritable(_ limit: Duration) -> Bool {
        var entry = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
        let count = poll(&entry, 1, CInt(limit.nanoseconds / 1_000_000))
        return count > 0 && entry.revents & Int16(POLLNVAL) == 0
    }
}
