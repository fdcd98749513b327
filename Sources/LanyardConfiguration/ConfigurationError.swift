/// An error or warning about the configuration: place, message and remedy.
///
/// It never holds a secret: values are quoted only where no secret can stand, and URLs with user info are never quoted. A
/// type of its own, because it carries a place and a remedy, and because many are reported at once.
package struct ConfigurationError: Error, Equatable, Sendable, CustomStringConvertible {
    /// What follows from it.
    package enum Severity: String, Sendable {
        /// Lanyard runs, but the operator should know.
        case warning
        /// Lanyard does not start: exit 78.
        case error
        /// The command line contradicts itself or names a flag that does not exist: exit 64.
        case usage
    }

    /// What follows from it.
    package var severity: Severity
    /// Where the value was given.
    package var place: ConfigurationPlace
    /// What is wrong.
    package var message: String
    /// What to do about it.
    package var remedy: String

    package init(
        _ severity: Severity = .error, at place: ConfigurationPlace, _ message: String, remedy: String
    ) {
        self.severity = severity
        self.place = place
        self.message = message
        self.remedy = remedy
    }

    /// One line: `lanyard.yaml:12:5: unknown key "upstram"; did you mean "upstream"?` Control characters of paths and names are replaced.
    package var description: String { ConfigurationText.line("\(place): \(message); \(remedy)") }
}

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

    /// A file has the value, so that its remedy is a change of that file.
    package var isOfFile: Bool {
        switch self {
        case .file, .wholeFile: true
        case .flag, .environment, .commandLine: false
        }
    }

    /// The remedy for a key that is missing beside this place.
    ///
    /// - Parameters:
    ///   - value: the key with its value, such as `unsafe: true`; an explanation may follow.
    ///   - section: the section of the key in a file.
    ///   - flag: the same as a flag of the short form; nil: only a file can hold it.
    package func adding(_ value: String, to section: String, flag: String? = nil) -> String {
        switch self {
        case .file, .wholeFile: "add \(value)"
        case .flag, .environment, .commandLine:
            flag.map { "add \($0)" } ?? "use a configuration file with \(section).\(value)"
        }
    }

    /// The place as an operator reads it: `lanyard.yaml:12:5`, `--listen`.
    package var description: String {
        switch self {
        case .file(let path, let line, let column): "\(path):\(line):\(column)"
        case .wholeFile(let path): path
        case .flag(let name), .environment(let name): name
        case .commandLine: "command line"
        }
    }
}
