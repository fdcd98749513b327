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

    /// The remedy that gives a key which only a file has: beside a flag or a variable of the short form it cannot be written.
    ///
    /// - Parameters:
    ///   - value: `unsafe: true`; whatever explains it may follow.
    ///   - section: where the key stands in a file.
    package func adding(_ value: String, to section: String) -> String {
        switch self {
        case .file, .wholeFile: "add \(value)"
        case .flag, .environment, .commandLine: "use a configuration file with \(section).\(value)"
        }
    }

    package var description: String {
        switch self {
        case .file(let path, let line, let column): "\(path):\(line):\(column)"
        case .wholeFile(let path): path
        case .flag(let name), .environment(let name): name
        case .commandLine: "command line"
        }
    }
}
