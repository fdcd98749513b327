import CLinux
import Glibc
import LanyardFoundations
import LanyardSettings
import Logging
import Synchronization

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
        /// Of the queues that write without the lock.
        var rings: [LineRing] = []
        var isStarted = false
        var isEnding = false
        /// The thread is writing what it has found.
        var isWriting = false
        var dropped = 0
        var droppedReported = 0
    }

    /// While lines come, the thread checks this often. Then a line costs its shard no system call.
    private static let pollMicroseconds: UInt32 = 2_000
    private static let directTimeout = Duration.seconds(1)
    /// The bytes that a pipe accepts atomically (PIPE_BUF): lines of several processes do not mix up to this size.
    private static let pieceBytes = 4_096
    /// Bytes that are taken out of a ring at once: all that may wait in it.
    private static let ringPieceBytes = LineRing.bytesMax

    private let descriptor: CInt
    /// Of the lines for which no format is chosen.
    private let defaultFormat: LogSettings.Format
    private let isText: Atomic<Bool>
    /// Each line begins with its priority, as systemd's journal reads it.
    package let hasPriorities: Bool
    private let state: Guarded<State>
    /// nil: the descriptor is no terminal.
    private let terminal: TerminalLines?
    /// The last byte on the descriptor is inside a line: a full disk or a reader that left has cut the write. The next write begins with a
    /// newline. The rest of the cut line is not written: it counts as dropped.
    private let isLineCut: Atomic<Bool>
    /// The thread's. It sleeps while no line comes; otherwise it checks again by itself.
    private let sleeper = Sleeper()
    /// What operators see of the lines while they follow them.
    package let tap = LogTap()

    /// - Parameters:
    ///   - descriptor: the caller's; it stays open as long as the pipe lives.
    ///   - format: of all lines, until `setFormat` chooses another one.
    ///   - hasPriorities: each line begins with its priority.
    ///   - terminal: how lines look on the terminal that the descriptor is; nil: it is none.
    ///   - bytesMax: bytes that may wait, in two halves.
    package init(
        descriptor: CInt = STDERR_FILENO, format: LogSettings.Format = .json, hasPriorities: Bool = false,
        terminal: TerminalLines? = nil, bytesMax: Int = 2 << 20
    ) {
        self.descriptor = descriptor
        self.terminal = terminal
        defaultFormat = format
        isText = Atomic(format == .text)
        isLineCut = Atomic(Self.endsInsideLine(descriptor))
        self.hasPriorities = hasPriorities
        let half = max(bytesMax / 2, Self.pieceBytes)
        state = Guarded(State(filling: Batch(capacity: half), draining: Batch(capacity: half)))
    }

    deinit {
        state.withLock {
            $0.filling.bytes.deallocate()
            $0.draining.bytes.deallocate()
        }
    }

    /// The format of a line that is made now. From any thread.
    package var format: LogSettings.Format { isText.load(ordering: .relaxed) ? .text : .json }

    /// Chooses the format of lines that are made from now on. From any thread.
    ///
    /// - Parameter format: nil: the format of the start.
    package func setFormat(_ format: LogSettings.Format?) {
        isText.store((format ?? defaultFormat) == .text, ordering: .relaxed)
    }

    /// Lines that were dropped because the reader is slow or gone.
    package var droppedLines: Int { state.withLock { Self.dropped($0) } }

    private static func dropped(_ state: State) -> Int { state.rings.reduce(state.dropped) { $0 + $1.droppedLines } }

    /// Lines for the request path: the queue that appends to the ring takes no lock and makes no system call while lines come. Lines that
    /// are appended before `start` wait for it.
    package func makeRing() -> LineRing {
        let ring = LineRing(wakes: sleeper)
        state.withLock { $0.rings.append(ring) }
        return ring
    }

    /// Accepts one line, its newline included. From any thread; returns at once.
    package func write(_ line: UnsafeRawBufferPointer) {
        // Only read, and only during this call.
        nonisolated(unsafe) let line = line
        let isDirect = state.withLock { state -> Bool in
            guard state.isStarted else { return true }
            if !state.filling.append(line) { state.dropped += 1 }
            return false
        }
        sleeper.wake()
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
            if state.withLock({ !$0.isStarted || Self.isEmpty($0) && !$0.isWriting }) { return true }
            guard Instant.now < end else { return false }
            usleep(1_000)
        }
    }

    /// Ends the thread after it has written the waiting lines, and waits for that up to `limit`. Later lines are written at once again.
    package func stop(within limit: Duration = .seconds(1)) {
        state.withLock { $0.isEnding = true }
        sleeper.wake()
        let end = Instant.now + limit
        while state.withLock({ $0.isStarted }), Instant.now < end { usleep(1_000) }
    }

    // MARK: The thread

    private func drain() {
        let room = UnsafeMutableRawBufferPointer.allocate(byteCount: Self.ringPieceBytes, alignment: 1)
        defer { room.deallocate() }
        while true {
            let rings = state.withLock { state in
                state.isWriting = true
                return state.rings
            }
            // Before the batch is taken: so the refusal of a request, which is in the batch, is never behind its access line.
            let accessLines = terminal == nil ? [] : takeLines(of: rings, through: room)
            let hasBatch = state.withLock { state in
                swap(&state.filling, &state.draining)
                return state.draining.count > 0
            }
            if hasBatch { writeBatch() }
            let hasLines: Bool
            if terminal == nil {
                // Not `contains`, which would end at the first ring with lines.
                hasLines = rings.reduce(false) { writeLines(of: $1, through: room) || $0 }
            } else {
                hasLines = !accessLines.isEmpty
                _ = accessLines.withUnsafeBytes { writeAll($0) }
            }
            if hasBatch || hasLines { reportDropped() }
            // Only now: `flush` waits for the report, too.
            state.withLock { $0.isWriting = false }
            if hasBatch || hasLines {
                usleep(Self.pollMicroseconds)
            } else if !sleep() {
                return
            }
        }
    }

    /// Sleeps until there is work. False if the thread is to end: an end was asked for, and no line waits.
    private func sleep() -> Bool {
        sleeper.fallAsleep()
        let (isIdle, hasEnded) = state.withLock { state -> (Bool, Bool) in
            let isIdle = Self.isEmpty(state)
            if isIdle, state.isEnding { state.isStarted = false }
            return (isIdle && state.isStarted, !state.isStarted)
        }
        if isIdle { sleeper.wait() } else { sleeper.stayAwake() }
        return !hasEnded
    }

    /// No line waits.
    private static func isEmpty(_ state: State) -> Bool {
        state.filling.count == 0 && state.rings.allSatisfy(\.isEmpty)
    }

    /// Writes what waits in a ring. False if that is nothing.
    private func writeLines(of ring: LineRing, through room: UnsafeMutableRawBufferPointer) -> Bool {
        // One look: a queue that appends faster than the lines are written must not keep the thread from the others.
        let count = ring.drain(into: room)
        guard count > 0 else { return false }
        let lost = writeAll(UnsafeRawBufferPointer(rebasing: room[..<count]))
        ring.finishDrain(count)
        if lost > 0 { state.withLock { $0.dropped += lost } }
        return true
    }

    /// What waits in the rings.
    private func takeLines(of rings: [LineRing], through room: UnsafeMutableRawBufferPointer) -> [UInt8] {
        rings.reduce(into: []) { lines, ring in
            let count = ring.drain(into: room)
            guard count > 0 else { return }
            lines.append(contentsOf: UnsafeRawBufferPointer(rebasing: room[..<count]))
            ring.finishDrain(count)
        }
    }

    /// `draining` is this thread's alone between two swaps, so it is written without the lock.
    private func writeBatch() {
        let batch = state.withLock { $0.draining }
        let lost = writeAll(UnsafeRawBufferPointer(rebasing: batch.bytes[0..<batch.count]))
        state.withLock { state in
            state.dropped += lost
            state.draining.count = 0
        }
    }

    /// Says how many lines were dropped since the last report. If the reader of the log is gone, the next report says it again.
    private func reportDropped() {
        let (unreported, total) = state.withLock { state in
            let total = Self.dropped(state)
            return (total - state.droppedReported, total)
        }
        if unreported > 0, report(dropped: unreported) { state.withLock { $0.droppedReported = total } }
    }

    /// Whole lines. Returns how many were lost.
    private func writeAll(_ bytes: UnsafeRawBufferPointer) -> Int {
        tap.append(bytes)
        guard let terminal else { return writePieces(bytes) }
        return terminal.shown(bytes).withUnsafeBytes { writePieces($0) }
    }

    /// Whole lines in pieces that a pipe takes at once. Returns how many lines were lost.
    private func writePieces(_ bytes: UnsafeRawBufferPointer) -> Int {
        if !bytes.isEmpty, isLineCut.load(ordering: .relaxed) {
            var newline = UInt8(ascii: "\n")
            guard writeSome(&newline, count: 1) > 0 else { return Self.lineCount(bytes[...]) }
            isLineCut.store(false, ordering: .relaxed)
        }
        var start = 0
        while start < bytes.count {
            let end = Self.pieceEnd(bytes, from: start)
            let count = writeSome(bytes.baseAddress! + start, count: end - start)
            guard count > 0 else {
                if start > 0, bytes[start - 1] != UInt8(ascii: "\n") { isLineCut.store(true, ordering: .relaxed) }
                return Self.lineCount(bytes[start...])
            }
            start += count
        }
        return 0
    }

    /// One write, which may be a short one. Returns the bytes that were written; 0 if none can be.
    private func writeSome(_ bytes: UnsafeRawPointer, count: Int) -> Int {
        while true {
            let written = Glibc.write(descriptor, bytes, count)
            if written >= 0 { return written }
            switch errno {
            case EINTR: continue
            // Another process made the shared descriptor non-blocking.
            case EAGAIN: _ = waitUntilWritable(.seconds(1))
            default: return 0
            }
        }
    }

    private static func lineCount(_ bytes: Slice<UnsafeRawBufferPointer>) -> Int {
        bytes.count { $0 == UInt8(ascii: "\n") }
    }

    /// Whether an earlier process has left a cut line at the end of the file that the descriptor appends to. False if that cannot be
    /// read.
    private static func endsInsideLine(_ descriptor: CInt) -> Bool {
        var file = stat()
        guard fstat(descriptor, &file) == 0, file.st_mode & S_IFMT == S_IFREG else { return false }
        // Appended lines go to the end of the file, others to the place that all processes with this descriptor share.
        let isAppending = fcntl(descriptor, F_GETFL) & O_APPEND != 0
        let place = isAppending ? file.st_size : lseek(descriptor, 0, SEEK_CUR)
        guard place > 0 else { return false }
        let reading = open("/proc/self/fd/\(descriptor)", O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)
        guard reading >= 0 else { return false }
        defer { close(reading) }
        var last: UInt8 = 0
        return pread(reading, &last, 1, place - 1) == 1 && last != UInt8(ascii: "\n")
    }

    /// Where the last line ends that fits into a piece. The search is a part of what each line costs, so it checks no place.
    private static func pieceEnd(_ bytes: UnsafeRawBufferPointer, from start: Int) -> Int {
        guard bytes.count - start > pieceBytes, let base = bytes.baseAddress else { return bytes.count }
        let endMax = start + pieceBytes
        var end = endMax
        while end > start, (base + (end &- 1)).load(as: UInt8.self) != UInt8(ascii: "\n") { end &-= 1 }
        return end > start ? end : endMax
    }

    /// - Returns: whether the line was written.
    private func report(dropped count: Int) -> Bool {
        let event = LogEvent(
            level: .warning, message: "log lines were dropped: the reader of standard error was slow or gone",
            metadata: nil, source: "", file: "", function: "", line: 0)
        let metadata: Logger.Metadata = ["event": "log.dropped", "lines": .stringConvertible(count)]
        return line(event, metadata).bytes.withUnsafeBytes { writeAll($0) } == 0
    }

    /// One event as a line, its priority and its newline included.
    func line(_ event: LogEvent, _ metadata: Logger.Metadata) -> JSONWriter {
        var line = JSONWriter(capacity: 512)
        if hasPriorities { line.raw(LogPriority.prefix(of: event.level)) }
        switch format {
        case .json: JSONLogLine.write(event, metadata, at: .now, to: &line)
        case .text: TextLogLine.write(event, metadata, at: .now, to: &line)
        }
        return line
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
