import LanyardFoundations

/// Writes a response of Lanyard's own: problem+json with `Proxy-Status` (RFC 9457, RFC 9209, http-rules.md 19.1).
struct ProblemWriter {
    let shard: Shard
    let problem: Problem
    /// The request's id; also `instance`.
    let requestID: RequestID
    /// The request was a HEAD: the same head, no body.
    let isResponseToHead: Bool
    let closes: Bool
    let clientMinorVersion: Int

    /// - Returns: the number of body bytes.
    func write(into out: inout HeadWriter) -> Int {
        let body = problem.json(instance: requestID.description)
        // The title is also the reason phrase. Every title is a fixed text (`Problem`).
        out.write("HTTP/1.1 \(problem.status) \(problem.title)\r\n")
        out.write("Content-Type: \(ProblemDetail.contentType)\r\nContent-Length: \(body.bytes.count)\r\nDate: ")
        shard.writeDate(&out)
        out.write("\r\nCache-Control: no-store\r\nProxy-Status: lanyard; error=\(problem.error)\r\n")
        if let seconds = problem.retryAfter { out.write("Retry-After: \(seconds)\r\n") }
        if let allow = problem.allow { out.write("Allow: \(allow)\r\n") }
        out.write(ConnectionOptions.responseLine(closes: closes, clientMinorVersion: clientMinorVersion))
        out.write("\r\n" as StaticString)
        guard !isResponseToHead else { return 0 }
        out.write(body.bytes)
        return body.bytes.count
    }
}

extension Problem {
    /// The body: one line of JSON.
    ///
    /// - Parameter instance: the request's id.
    func json(instance: String) -> JSONWriter {
        var json = ProblemDetail(
            name, status: status, title: title, detail: detail, instance: instance, isRetryable: isRetryable,
            user: user,
            action: action
        ).json
        json.newline()
        return json
    }
}
