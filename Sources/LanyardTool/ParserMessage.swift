/// What the parser says of a wrong command line, in the form of all other errors.
enum ParserMessage {
    /// `error: MESSAGE`, then what the parser says of the argument and the usage, then `what to do: lanyard COMMAND --help`. A text of
    /// another form stays as it is.
    static func text(_ message: String) -> String {
        message.split(separator: "\n", omittingEmptySubsequences: false).map(line).joined(separator: "\n")
    }

    private static func line(_ line: Substring) -> String {
        if let rest = line.rest(behind: "Error: ") { return "error: \(lowercased(rest))" }
        if let rest = line.rest(behind: "Usage: ") { return "usage: \(rest)" }
        if let rest = line.rest(behind: "Help:  ") { return "argument: \(rest)" }
        if let rest = line.rest(behind: "  See '"), let end = rest.firstRange(of: "' for more information.") {
            return "what to do: \(rest[..<end.lowerBound]) lists the arguments"
        }
        return String(line)
    }

    /// Without the capital of a sentence's first word. A word of capitals alone stays.
    private static func lowercased(_ text: Substring) -> String {
        guard let second = text.dropFirst().first, second.isLowercase else { return String(text) }
        return text.prefix(1).lowercased() + text.dropFirst()
    }
}

extension Substring {
    fileprivate func rest(behind beginning: String) -> Substring? {
        hasPrefix(beginning) ? dropFirst(beginning.count) : nil
    }
}
