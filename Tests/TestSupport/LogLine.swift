/// One line that a binary wrote to stderr.
package struct LogLine: Sendable {
    /// The line without its newline.
    package let text: String
    /// The line as JSON; `.null` for a line that is none.
    package let json: JSON

    /// Reads a line.
    package init(_ text: String) {
        self.text = text
        json = (try? JSON(text: text)) ?? .null
    }

    /// The stable dotted name of what happened.
    package var event: String? { json["event"].string }
}
