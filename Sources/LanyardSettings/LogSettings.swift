/// `log:` of the configuration (architecture-control.md 7.3).
package struct LogSettings: Equatable, Sendable {
    /// From the most to the least verbose.
    package enum Level: String, Sendable, CaseIterable { case trace, debug, info, notice, warning, error, critical }

    /// The format of a line.
    package enum Format: String, Sendable, CaseIterable { case json, text }

    /// Lines below it are not written.
    package var level = Level.info
    /// How a line is written; nil: `text` on a terminal, else `json`.
    package var format: Format?
    /// One line for each request.
    package var logsAccess = true

    package init() {}
}
