import LanyardFoundations

/// Writes a response of Lanyard's own: problem+json with `Proxy-Status` (RFC 9457, RFC 9209, http-connections.md 19.1).
struct ProblemWriter {
    let context: HeadContext
    let problem: Problem
    var form = ResponseForm.problem
    /// The request's id; also `instance`.
    let requestID: RequestID
    /// The request was a HEAD: the same head, no body.
    let isResponseToHead: Bool
    let closes: Bool
    let clientMinorVersion: Int

    /// Writes the head.
    ///
    /// - Returns: the body, which follows it; nil: none does.
    func writeHead(into out: inout some HeadSink & ~Copyable) -> JSONWriter? {
        let body: JSONWriter
        switch form {
        case .problem: body = problem.json(instance: requestID.description)
        case .jsonRPC: body = problem.jsonRPC(instance: requestID.description)
        case .oauth: body = problem.oauthError
        case .grpc:
            writeTrailersOnly(into: &out)
            return nil
        }
        // The title is also the reason phrase. Every title is a fixed text (`Problem`).
        out.beginResponse(form == .oauth ? problem.oauthStatus : problem.status, problem.title)
        out.writeField("Content-Type", "\(form.contentType)")
        out.writeField("Content-Length", decimal: body.bytes.count)
        context.writeDate(&out)
        out.writeField("Cache-Control", "no-store")
        out.writeField("Proxy-Status", "lanyard; error=\(problem.error)")
        // SDKs of AI services decide by this field, and without it by the status alone.
        if !problem.isRetryable { out.writeField("X-Should-Retry", "false") }
        if let seconds = problem.retryAfter { out.writeField("Retry-After", decimal: seconds) }
        if let allow = problem.allow { out.writeField("Allow", allow) }
        out.writePersistence(closes: closes, clientMinorVersion: clientMinorVersion)
        out.endHead()
        return isResponseToHead ? nil : body
    }
}

extension ProblemWriter {
    /// A call of gRPC that Lanyard ends: its status stands in a head that ends the stream.
    private func writeTrailersOnly(into out: inout some HeadSink & ~Copyable) {
        out.beginResponse(200, "OK")
        out.writeField("Content-Type", "\(form.contentType)")
        out.writeField("grpc-status", decimal: problem.grpcStatus)
        GRPC.writeMessage("\(problem.title): \(problem.detail)", into: &out)
        context.writeDate(&out)
        out.writeField("Proxy-Status", "lanyard; error=\(problem.error)")
        out.endHead()
    }
}

extension Problem {
    /// The body: one line of JSON.
    ///
    /// - Parameter instance: the request's id.
    func json(instance: String) -> JSONWriter {
        var json = document(instance: instance).json
        json.newline()
        return json
    }

    private func document(instance: String) -> ProblemDetail {
        ProblemDetail(
            name, status: status, title: title, detail: detail, instance: instance, isRetryable: isRetryable,
            user: user,
            action: action)
    }

    /// An error of JSON-RPC 2.0 (§5.1) with the problem as its data. The id is null, because the request was not read.
    func jsonRPC(instance: String) -> JSONWriter {
        var json = JSONWriter(capacity: 384 + 3 * detail.utf8.count)
        json.beginObject()
        json.key("jsonrpc")
        json.string("2.0")
        json.key("id")
        json.null()
        json.key("error")
        json.beginObject()
        json.key("code")
        json.number(Self.jsonRPCCode)
        json.key("message")
        json.string(detail)
        json.key("data")
        document(instance: instance).write(into: &json)
        json.endObject()
        json.endObject()
        json.newline()
        return json
    }

    /// Of the range that JSON-RPC leaves to servers (§5.1).
    private static let jsonRPCCode = -32_000
}
