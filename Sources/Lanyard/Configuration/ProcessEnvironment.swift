import CLanyard.Linux
import Glibc

/// The environment variables of this process.
package enum ProcessEnvironment {
    private static let clearedNames = Guarded<[String]>([])

    /// Removes these variables. Call only while the process has one thread: other threads may read the environment.
    package static func clear(_ variables: LibraryVariables) {
        let names = all().keys.filter(variables.contains)
        for name in names { unsetenv(name) }
        clearedNames.withLock { $0 += names }
    }

    /// The names of the variables that were removed, sorted.
    package static var cleared: [String] { clearedNames.withLock { $0.sorted() } }

    /// All variables. If a name occurs twice the first one counts, as in getenv(3).
    package static func all() -> [String: String] {
        var variables: [String: String] = [:]
        guard var next = lanyard_environment() else { return variables }
        while let line = next.pointee {
            let parts = String(cString: line).split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            if parts.count == 2, variables[String(parts[0])] == nil { variables[String(parts[0])] = String(parts[1]) }
            next += 1
        }
        return variables
    }
}
