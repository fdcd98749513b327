import ArgumentParser
import Glibc
import LanyardClient
import LanyardConfiguration
import LanyardFoundations
import Synchronization

/// The output of commands for the operator, and whether it could be written. No command writes in another way.
enum Report {
    /// EX_IOERR of sysexits.h: the output could not be written.
    private static let outputFailed: Int32 = 74

    /// `errno` of the first failed write to standard output; 0: none failed.
    private static let outputFailure = Atomic<CInt>(0)
    /// The same for standard error.
    private static let errorFailure = Atomic<CInt>(0)

    /// Writes all errors and warnings to standard error, one line each.
    static func diagnostics(of loaded: LoadedConfiguration) { diagnostics(loaded.diagnostics) }

    /// Loads the configuration of these flags for a command that needs one. If it cannot be used, all errors and warnings are written.
    ///
    /// - Throws: the exit code that the command then ends with.
    static func usable(
        _ flags: [String], _ environment: [String: String] = ProcessEnvironment.all()
    ) throws -> (configuration: Configuration, loaded: LoadedConfiguration) {
        let loaded = Configuration.load(arguments: flags, environment: environment)
        guard let configuration = loaded.configuration else {
            diagnostics(of: loaded)
            throw ExitCode(loaded.exitCode ?? 78)
        }
        return (configuration, loaded)
    }

    /// Writes these, one line each.
    static func diagnostics(_ diagnostics: [ConfigurationError]) {
        for diagnostic in diagnostics {
            error("\(diagnostic.severity == .warning ? "warning" : "error"): \(diagnostic)")
        }
    }

    /// Writes lines to standard error.
    static func error(_ text: OperatorText) {
        eraseProgress()
        note(write(text, to: STDERR_FILENO), in: errorFailure)
    }

    /// Writes lines to standard output.
    static func output(_ text: OperatorText) {
        eraseProgress()
        note(write(text, to: STDOUT_FILENO), in: outputFailure)
    }

    /// The terminal of standard error shows a line of progress.
    private static let hasProgress = Atomic<Bool>(false)

    /// Shows a line in place of the former one on the terminal that standard error is. Elsewhere nothing.
    static func progress(_ text: String) {
        guard Terminal.isCapable(STDERR_FILENO) else { return }
        let line = ConfigurationText.line(text).prefix(max(Terminal.columns(of: STDERR_FILENO) - 1, 1))
        hasProgress.store(true, ordering: .relaxed)
        _ = write("\r\(line)\u{1b}[K", to: STDERR_FILENO)
    }

    /// Erases the line of progress. What is written next stands in its place.
    static func eraseProgress() {
        guard hasProgress.exchange(false, ordering: .relaxed) else { return }
        _ = write("\r\u{1b}[K", to: STDERR_FILENO)
    }

    /// Writes a credential and a newline to standard output, without a copy in ordinary memory.
    ///
    /// - Parameter label: stands before it on the line.
    /// - Returns: false: it is not one word of visible ASCII, and nothing was written.
    static func output(credential: Secret, label: String = "") -> Bool {
        guard credential.isVisibleASCII else { return false }
        var line = SecretBuffer(capacity: credential.count + 16)
        line.append(label)
        credential.withBytes { line.append($0) }
        line.append("\n")
        output(line.seal())
        return true
    }

    /// Writes a JSON document of the admin API and a newline to standard output. Texts may have escapes that the document has not.
    ///
    /// - Returns: false: it is not one JSON text, and nothing was written.
    static func output(json document: Secret) -> Bool {
        guard let text = PrintableJSON.text(document) else { return false }
        output(text)
        output("")
        return true
    }

    /// Writes bytes to standard output as they are.
    static func output(_ bytes: Secret) {
        note(bytes.withBytes { write($0, to: STDOUT_FILENO) }, in: outputFailure)
    }

    /// The reader of standard output is gone.
    static var isOutputClosed: Bool { waitForClosedOutput(.zero) }

    /// Blocks for so long, or until the reader of the pipe or socket that standard output is has gone.
    ///
    /// - Returns: true: it has gone.
    static func waitForClosedOutput(_ time: Duration) -> Bool {
        let end = ContinuousClock.now + time
        while true {
            var entry = pollfd(fd: STDOUT_FILENO, events: 0, revents: 0)
            let left = max(end - ContinuousClock.now, .zero).components
            let milliseconds = left.seconds * 1000 + (left.attoseconds + 999_999_999_999_999) / 1_000_000_000_000_000
            if poll(&entry, 1, CInt(clamping: milliseconds)) > 0 { return true }
            if ContinuousClock.now >= end { return false }
        }
    }

    /// Writes lines with escape sequences of Lanyard's own to the terminal that standard output is.
    static func control(_ text: String) { note(write(text, to: STDOUT_FILENO), in: outputFailure) }

    /// Moves the terminal's cursor to the top left and erases the screen (ECMA-48 §8.3.21, §8.3.39).
    static func clearScreen() { control("\u{1b}[H\u{1b}[J") }

    /// Whether all output has been written so far.
    static var isOutputWhole: Bool { outputFailure.load(ordering: .relaxed) == 0 }

    /// Ends the process. The status is 74 in place of 0 if output or an error message could not be written.
    ///
    /// It does not call exit(3), because that runs the cleanup of OpenSSL and other libraries while threads of `run` may still use them.
    static func exit(_ status: Int32) -> Never {
        let failure = outputFailure.load(ordering: .relaxed)
        if failure != 0 { error("error: standard output cannot be written (\(Errno.text(of: failure)))") }
        let isWhole = failure == 0 && errorFailure.load(ordering: .relaxed) == 0
        _exit(status == 0 && !isWhole ? outputFailed : status)
    }

    private static func note(_ code: CInt, in failure: borrowing Atomic<CInt>) {
        if code != 0 { _ = failure.compareExchange(expected: 0, desired: code, ordering: .relaxed) }
    }

    private static func write(_ text: OperatorText, to descriptor: CInt) -> CInt {
        write(text.lines.joined(separator: "\n") + "\n", to: descriptor)
    }

    private static func write(_ text: String, to descriptor: CInt) -> CInt {
        var text = text
        return text.withUTF8 { write(UnsafeRawBufferPointer($0), to: descriptor) }
    }

    /// Returns 0, or `errno` of the write that failed.
    private static func write(_ bytes: UnsafeRawBufferPointer, to descriptor: CInt) -> CInt {
        var rest = bytes[...]
        while !rest.isEmpty {
            let run = UnsafeRawBufferPointer(rebasing: rest)
            let count = Glibc.write(descriptor, run.baseAddress, run.count)
            if count > 0 {
                rest = rest.dropFirst(count)
            } else if errno == EAGAIN {
                // Another process has made the shared pipe or terminal non-blocking.
                var entry = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
                poll(&entry, 1, -1)
            } else if errno != EINTR {
                return errno
            }
        }
        return 0
    }
}
