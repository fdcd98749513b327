import ArgumentParser
import Glibc
import LanyardConfiguration
import LanyardFoundations
import Synchronization

/// The output of commands for the operator, and whether it could be written.
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

    /// Writes a line to standard error.
    static func error(_ line: String) { note(write(line + "\n", to: STDERR_FILENO), in: errorFailure) }

    /// Writes text to standard output.
    static func output(_ text: String, terminator: String = "\n") {
        note(write(text + terminator, to: STDOUT_FILENO), in: outputFailure)
    }

    /// Writes secret bytes and a newline to standard output, without a copy in ordinary memory.
    static func output(_ secret: Secret) {
        note(secret.withBytes { write($0, to: STDOUT_FILENO) }, in: outputFailure)
        output("")
    }

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
