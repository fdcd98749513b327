import Glibc
import Synchronization

/// What the program prints, and whether it could be written.
enum CommandOutput {
    /// EX_IOERR of sysexits.h: the output could not be written.
    private static let outputFailed: Int32 = 74

    /// `errno` of the first failed write to standard output; 0: none failed.
    private static let failure = Atomic<CInt>(0)

    /// Writes a line to standard output.
    static func print(_ line: String) {
        let code = write(line + "\n", to: STDOUT_FILENO)
        if code != 0 { _ = failure.compareExchange(expected: 0, desired: code, ordering: .relaxed) }
    }

    /// Writes a line to standard error. A failure of that is ignored: the service continues without its log.
    static func log(_ line: String) { _ = write(line + "\n", to: STDERR_FILENO) }

    /// Ends the process. The status is 74 in place of 0 if output could not be written.
    ///
    /// It does not call exit(3), because that runs the cleanup of libraries while other threads may still use them.
    static func exit(_ status: Int32) -> Never {
        let code = failure.load(ordering: .relaxed)
        if code != 0 { log("error: standard output cannot be written (\(String(cString: strerror(code))))") }
        _exit(status == 0 && code != 0 ? outputFailed : status)
    }

    /// Returns 0, or `errno` of the write that failed.
    private static func write(_ text: String, to descriptor: CInt) -> CInt {
        var rest = Array(text.utf8)[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
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
