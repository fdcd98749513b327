import LanyardFoundations

/// Writes a response of Lanyard's own: problem+json with `Proxy-Status` (RFC 9457, RFC 9209, http-rules.md 19.1).
struct ProblemWriter {
    let shard: Shard
    let problem: Problem
    /// The request's id; also `instance`.
    let requestID: String
    /// The request was a HEAD: the same head, no body.
    let toHead: Bool
    let closes: Bool
    let clientMinorVersion: Int

    func write(into out: inout HeadWriter) {
        let body = json
        out.write("HTTP/1.1 \(problem.status) \(problem.title)\r\n")
        out.write("Content-Type: application/problem+json\r\nContent-Length: \(body.utf8.count)\r\nDate: ")
        shard.writeDate(&out)
        out.write("\r\nCache-Control: no-store\r\nProxy-Status: lanyard; error=\(problem.error)\r\n")
        if let seconds = problem.retryAfter { out.write("Retry-After: \(seconds)\r\n") }
        if let allow = problem.allow { out.write("Allow: \(allow)\r\n") }
        out.write(ConnectionOptions.responseLine(closes: closes, clientMinorVersion: clientMinorVersion))
        out.write("\r\n" as StaticString)
        if !toHead { out.write(body) }
    }

    /// All values except `detail` are fixed texts and aliases (`[A-Za-z0-9._-]`): no character needs an escape.
    private var json: String {
        var text = "{\"type\": \"urn:lanyard:problem:\(problem.name)\", \"status\": \(problem.status), "
        text += "\"title\": \"\(problem.title)\", \"detail\": \(Self.string(problem.detail)), "
        text += "\"instance\": \"\(requestID)\", \"retryable\": \(problem.retryable)"
        if let user = problem.user { text += ", \"user\": \"\(user)\"" }
        return text + "}\n"
    }

    /// Returns the text with its quotes. Only texts that name a file or an app can contain characters that JSON
    /// escapes.
    private static func string(_ text: String) -> String {
        let isPlain = text.utf8.allSatisfy {
            0x20..<0x7f ~= $0 && $0 != UInt8(ascii: "\"") && $0 != UInt8(ascii: "\\")
        }
        if isPlain { return "\"\(text)\"" }
        var json = JSONWriter(capacity: text.utf8.count + 32)
        json.string(text)
        return json.text
    }
}
