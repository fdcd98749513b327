import Glibc
import Lanyard

/// What commands say to the person at the terminal.
enum Report {
    /// All faults and warnings on standard error, a line each.
    static func faults(of loaded: LoadedConfiguration) { faults(loaded.faults) }

    /// These, a line each.
    static func faults(_ faults: [ConfigurationFault]) {
        for fault in faults {
            error("\(fault.severity == .warning ? "warning" : "error"): \(fault)")
        }
    }

    /// A line on standard error.
    static func error(_ line: String) { write(line + "\n", to: STDERR_FILENO) }

    /// Text on standard output.
    static func output(_ text: String, terminator: String = "\n") { write(text + terminator, to: STDOUT_FILENO) }

    private static func write(_ text: String, to descriptor: CInt) {
        var rest = Array(text.utf8)[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
            if count > 0 { rest = rest.dropFirst(count) } else if errno != EINTR { return }
        }
    }
}
