import CLanyard.Linux

/// The variables of this process.
package enum ProcessEnvironment {
    /// All of them; of two with one name the first, as getenv() has it. Read once, at the start.
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
