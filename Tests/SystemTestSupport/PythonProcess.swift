import Glibc
import TestSupport

/// Debian's Python with a script of the test's own, or a module of its library.
enum PythonProcess {
    static let path = "/usr/bin/python3"
    static let isInstalled = access(path, X_OK) == 0

    /// Starts a server that prints `port N` or `… port N …` as its first line, and waits for that.
    static func serve(_ arguments: [String]) async throws -> (process: ServerProcess, endpoint: RawEndpoint) {
        let process = try ServerProcess(path, ["-u"] + arguments)
        var port: UInt16?
        try await eventually("Python has a port; it said:\n\(process.log)") {
            port = process.output.firstMatch(of: /port (\d+)/).flatMap { UInt16($0.1) }
            return port != nil
        }
        return (process, .tcp(port!))
    }

    /// Runs a program to its end and returns what it printed.
    ///
    /// - Throws: `TestFailure` with its words if it does not end well.
    static func run(_ arguments: [String]) async throws -> String {
        let process = try ServerProcess(path, arguments)
        let exit = try await process.waitForExit()
        guard exit == .code(0) else {
            throw TestFailure("Python ended with \(exit):\n\(process.log)\n\(process.output)")
        }
        return process.output
    }
}
