/// One thing that is wrong with the configuration: where, what, and how to mend it.
///
/// Never holds a secret: values are quoted only where a secret cannot stand, URLs with user info never.
package struct ConfigurationError: Error, Equatable, Sendable, CustomStringConvertible {
    package enum Severity: String, Sendable {
        /// Lanyard runs; an operator should know.
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

    /// One line: `lanyard.yaml:12:5: unknown key "upstram"; did you mean "upstream"?` Paths and names in it may hold anything; it does not.
    package var description: String { ConfigurationText.line("\(place): \(message); \(remedy)") }
}
