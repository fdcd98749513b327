/// One line that a binary wrote to stderr.
package struct LogLine: Sendable {
    /// The line without its newline.
    package let text: String
    /// The line as JSON; `.null` if it is not JSON.
    package let json: JSON

    /// Reads a line.
    package init(_ text: String) {
        self.text = text
        json = (try? JSON(text: text)) ?? .null
    }

    /// The event name; nil: there is none.
    package var event: String? { json["event"].string }
}
