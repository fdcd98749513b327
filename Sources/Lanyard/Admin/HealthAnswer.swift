/// A whole answer of the health listener.
package struct HealthAnswer: Equatable, Sendable {
    package var status: Int
    package var contentType: String
    package var body: [UInt8]
    /// The `Allow` field of a 405.
    package var allow: String?
    /// What stands behind the request cannot be read as one.
    package var closes = false

    package init(status: Int, contentType: String = "application/json", body: [UInt8]) {
        self.status = status
        self.contentType = contentType
        self.body = body
    }

    /// A refusal as RFC 9457 writes it; `name` is the last word of its type.
    package static func problem(
        _ status: Int, _ name: String, _ title: String, _ detail: String, closes: Bool = false
    ) -> HealthAnswer {
        var body = JSONWriter()
        body.beginObject()
        body.key("type")
        body.string("urn:lanyard:problem:" + name)
        body.key("title")
        body.string(title)
        body.key("status")
        body.number(status)
        body.key("detail")
        body.string(detail)
        body.endObject()
        var answer = HealthAnswer(status: status, contentType: "application/problem+json", body: body.bytes)
        answer.closes = closes
        return answer
    }

    static func methodNotAllowed() -> HealthAnswer {
        var answer = problem(
            405, "method-not-allowed", "Method not allowed", "The health listener answers GET and HEAD only.")
        answer.allow = "GET, HEAD"
        return answer
    }

    static let hostNotAllowed = problem(
        421, "host-not-allowed", "Host not allowed",
        "Name the health listener by an IP address, or by localhost with its port.")

    static let timedOut = problem(
        408, "request-timeout", "Request timeout", "The request's head did not arrive in time.", closes: true)

    /// A head that broke a rule: nothing behind it is read.
    static func malformed(_ fault: HeadFault) -> HealthAnswer {
        let detail = "The request was not understood: \(fault.words)."
        return switch fault.kind {
        case .malformed: problem(400, "malformed-request", "Malformed request", detail, closes: true)
        case .lineTooLong: problem(414, "uri-too-long", "URI too long", detail, closes: true)
        case .fieldsTooLarge: problem(431, "fields-too-large", "Fields too large", detail, closes: true)
        case .notImplemented: problem(501, "not-implemented", "Not implemented", detail, closes: true)
        case .versionNotSupported: problem(505, "version-not-supported", "Version not supported", detail, closes: true)
        }
    }

    /// The answer as it goes out (RFC 9112 §4). `HEAD` gets the same head without the body.
    func write(toHead: Bool, closes: Bool, keepsHTTP10: Bool, at time: WallTime) -> [UInt8] {
        var out: [UInt8] = []
        out.reserveCapacity(320 + body.count)
        func line(_ text: String) { out.append(contentsOf: text.utf8) }
        line("HTTP/1.1 \(status) \(Self.reason(status))\r\nContent-Type: \(contentType)\r\n")
        line("Content-Length: \(body.count)\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n")
        if let allow { line("Allow: \(allow)\r\n") }
        if closes {
            line("Connection: close\r\n")
        } else if keepsHTTP10 {
            line("Connection: keep-alive\r\n")
        }
        line("Date: ")
        withUnsafeTemporaryAllocation(of: UInt8.self, capacity: HTTPDate.count) { room in
            HTTPDate.write(time, into: room.baseAddress!)
            out.append(contentsOf: room)
        }
        line("\r\n\r\n")
        if !toHead { out.append(contentsOf: body) }
        return out
    }

    private static func reason(_ status: Int) -> String {
        switch status {
        case 200: "OK"
        case 400: "Bad Request"
        case 404: "Not Found"
        case 405: "Method Not Allowed"
        case 408: "Request Timeout"
        case 414: "URI Too Long"
        case 421: "Misdirected Request"
        case 431: "Request Header Fields Too Large"
        case 501: "Not Implemented"
        case 503: "Service Unavailable"
        case 505: "HTTP Version Not Supported"
        default: ""
        }
    }
}
