import ArgumentParser
import LanyardClient
import LanyardConfiguration
import LanyardFoundations
import Synchronization

/// Reports failures of a command: what is wrong, and what to do next. With `--json` of a command of the admin API they are printed as a
/// problem on standard output, too.
enum CommandFailure {
    /// `--json` was given.
    private static let printsProblemsFlag = Atomic<Bool>(false)

    static var printsProblems: Bool { printsProblemsFlag.load(ordering: .relaxed) }

    /// From now on a failure is printed as a problem, too.
    static func printProblems() { printsProblemsFlag.store(true, ordering: .relaxed) }

    /// The command line does not fit: 64.
    static func usage(_ message: String, _ remedy: String) -> ExitCode {
        failed(message, remedy, exitCode: 64)
    }

    /// A file or the standard input cannot be used.
    static func input(_ error: InputError) -> ExitCode {
        failed(error.message, error.remedy, exitCode: error.exitCode)
    }

    /// The configuration, which names the admin API, cannot be used: 78.
    static func configuration(_ diagnostics: [ConfigurationError]) -> ExitCode {
        Report.diagnostics(diagnostics)
        if printsProblems {
            printProblem(
                diagnostics.map { "\($0)" }.joined(separator: "; "), "correct it, or give --admin", 78,
                isRetryable: false)
        }
        return ExitCode(78)
    }

    /// Prints the message and returns the error that ends the command.
    ///
    /// - Parameter isRetryable: the same command may succeed later.
    static func failed(_ message: String, _ remedy: String, exitCode: Int32, isRetryable: Bool = false) -> ExitCode {
        if printsProblems { printProblem(message, remedy, exitCode, isRetryable: isRetryable) }
        return explained(message, remedy, exitCode: exitCode)
    }

    /// The same for a failure whose problem is printed already.
    static func explained(_ message: String, _ remedy: String, exitCode: Int32) -> ExitCode {
        Report.error("error: \(message)")
        Report.error("what to do: \(remedy)")
        return ExitCode(exitCode)
    }

    /// Runs a part that reads input, and reports its error.
    static func reported<Value>(_ body: () throws(InputError) -> Value) throws -> Value {
        do throws(InputError) { return try body() } catch { throw input(error) }
    }

    /// In the form of the problems of the admin API, whose call was not made or has no response. `status` is that of such a response.
    private static func printProblem(_ message: String, _ remedy: String, _ exitCode: Int32, isRetryable: Bool) {
        let (name, status, title) =
            switch exitCode {
            case 64: ("command-invalid", 400, "Command invalid")
            case 69: ("no-response", 503, "No response")
            case 78: ("configuration-invalid", 422, "Configuration invalid")
            default: ("command-failed", 500, "Command failed")
            }
        var problem = ProblemDetail(
            name, status: status, title: title, detail: message + ".", isRetryable: isRetryable,
            action: isRetryable ? .nobody : .operator)
        problem.remedy = remedy
        _ = Report.output(json: problem.json.bytes.withUnsafeBytes { Secret(copying: $0) })
    }
}
