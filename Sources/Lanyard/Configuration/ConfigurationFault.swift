/// An error or warning about the configuration: place, message and remedy.
///
/// It never holds a secret: values are quoted only where no secret can stand, and URLs with user info are never quoted.
package struct ConfigurationError: Error, Equatable, Sendable, CustomStringConvertible {
    package enum Severity: String, Sendable {
        /// Lanyard runs, but the operator should know.
        case warning
        /// Lanyard does not start: exit 78.
        case error
        /// The command line contradicts itself or names a flag that does not exist: exit 64.
        case usage
    }

    package var severity: Severity
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
