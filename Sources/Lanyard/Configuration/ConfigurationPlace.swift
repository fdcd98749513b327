/// Where a value was given: what a fault points at.
package enum ConfigurationPlace: Equatable, Sendable, CustomStringConvertible {
    /// Line and column count from 1; the column counts characters.
    case file(path: String, line: Int, column: Int)
    case wholeFile(path: String)
    /// A flag with its dashes.
    case flag(String)
    case environment(String)
    /// What nobody gave.
    case commandLine

    package var description: String {
        switch self {
        case .file(let path, let line, let column): "\(path):\(line):\(column)"
        case .wholeFile(let path): path
        case .flag(let name), .environment(let name): name
        case .commandLine: "command line"
        }
    }
}
