/// Where a value was given.
package enum ConfigurationPlace: Equatable, Sendable, CustomStringConvertible {
    /// Line and column count from 1; the column counts characters.
    case file(path: String, line: Int, column: Int)
    case wholeFile(path: String)
    /// A flag with its dashes.
    case flag(String)
    case environment(String)
    /// The command line as a whole; also the place of values that were not given.
    case commandLine

    /// The remedy for a key that only a file can hold. For a flag or variable of the short form it names a configuration file.
    ///
    /// - Parameters:
    ///   - value: the key with its value, such as `unsafe: true`; an explanation may follow.
    ///   - section: the section of the key in a file.
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
