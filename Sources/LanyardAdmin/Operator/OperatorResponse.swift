import LanyardFoundations
import LanyardRequestPath
import LanyardSessionInterface

/// A whole response of the health or admin listener.
package struct OperatorResponse: Equatable, Sendable {
    /// The HTTP status.
    package var status: Int
    /// The `Content-Type` field; a 204 has none.
    package var contentType: String
    /// The whole body.
    package var body: [UInt8]
    /// A body that may hold a secret, in place of `body`: it is wiped once it is sent.
    package var secretBody: Secret?
    /// The `Allow` field of a 405.
    package var allow: String?
    /// Further field lines, without their ends.
    package var fields: [String] = []
    /// The connection closes after this response: the bytes after the request cannot be read as another request.
    package var closes = false
    /// The last part of the problem type; nil if this is not a problem.
    package private(set) var problemName: String?

    package init(status: Int, contentType: String = "application/json", body: [UInt8]) {
        self.status = status
        self.contentType = contentType
        self.body = body
    }

    /// A problem detail (RFC 9457); `name` is the last part of its type.
    ///
    /// - Parameters:
    ///   - user: the user that the problem concerns.
    ///   - isRetryable: the same request may succeed later.
    ///   - identity: the error of the identity service; its message and code become members.
    ///   - action: who must act; nil: what the error or the name says.
    ///   - remedy: what to do; nil: what the error says, if it says that.
    package static func problem(
        _ status: Int, _ name: String, _ title: String, _ detail: String, closes: Bool = false, user: String? = nil,
        isRetryable: Bool = false, identity: IdentityError? = nil, action: ResponsibleParty? = nil,
        remedy: String? = nil
    ) -> OperatorResponse {
        var document = ProblemDetail(
            name, status: status, title: title, detail: detail, isRetryable: isRetryable, user: user,
            // The caller may log in again.
            action: action ?? identity?.action(canLogIn: false)
                ?? responsibleParty(for: name, isRetryable: isRetryable),
            serviceError: identity.map { ($0.serviceText ?? $0.message, $0.code, $0.status) }
        )
        document.remedy = remedy ?? identity?.remedy(for: user ?? "NAME")
        let body = document.json
        var response = OperatorResponse(status: status, contentType: ProblemDetail.contentType, body: body.bytes)
        response.closes = closes
        response.problemName = name
        return response
    }

    /// Who must act about a problem that is no error of an identity service.
    private static func responsibleParty(for name: String, isRetryable: Bool) -> ResponsibleParty {
        if isRetryable { return .nobody }
        return ["login-required", "not-logged-in"].contains(name) ? .user : .operator
    }

    static let timedOut = problem(
        408, "request-timeout", "Request timeout", "The request's head did not arrive in time.", closes: true)

    /// Every connection, or every slot for calls that wait, is in use.
    static let overloaded: OperatorResponse = {
        var response = problem(
            503, "overloaded", "Overloaded", "Too many calls are running; try again later.", isRetryable: true)
        response.fields.append("Retry-After: 1")
        return response
    }()

    /// A head that breaks a rule: the problem that the request path has for it. Nothing after the head is read.
    static func malformed(_ error: HeadError) -> OperatorResponse {
        let problem = Problem.malformed(error)
        return .problem(problem.status, problem.name, problem.title, problem.detail, closes: true)
    }

    /// A longer body is sent as it is, after the head. Connections that send the same page share its memory.
    private static let joinedBodyBytesMax = 8 << 10

    /// The body if the caller sends it after what `write` returns, else empty.
    var separateBody: [UInt8] { body.count > Self.joinedBodyBytesMax ? body : [] }

    /// The response as bytes (RFC 9112 §4), without a secret body and without `separateBody`. `HEAD` gets the same head without the body.
    func write(isResponseToHead: Bool, closes: Bool, keepsHTTP10: Bool, at time: WallTime) -> [UInt8] {
        var out: [UInt8] = []
        let hasBody = !isResponseToHead && body.count <= Self.joinedBodyBytesMax
        out.reserveCapacity(320 + (hasBody ? body.count : 0))
        func line(_ text: String) { out.append(contentsOf: text.utf8) }
        line("HTTP/1.1 \(status) \(Self.reason(status))\r\n")
        // RFC 9110 §8.6: a 204 has no length, not even 0.
        if status != 204 {
            line("Content-Type: \(contentType)\r\nContent-Length: \(secretBody?.count ?? body.count)\r\n")
        }
        line("Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n")
        if let allow { line("Allow: \(allow)\r\n") }
        for field in fields { line("\(field)\r\n") }
        line("\(ConnectionOptions.responseLine(closes: closes, clientMinorVersion: keepsHTTP10 ? 0 : 1))")
        line("Date: ")
        withUnsafeTemporaryAllocation(of: UInt8.self, capacity: HTTPDate.count) { room in
            HTTPDate.write(time, into: room.baseAddress!)
            out.append(contentsOf: room)
        }
        line("\r\n\r\n")
        if hasBody { out.append(contentsOf: body) }
        return out
    }

    private static func reason(_ status: Int) -> String {
        switch status {
        case 200: "OK"
        case 201: "Created"
        case 202: "Accepted"
        case 204: "No Content"
        case 400: "Bad Request"
        case 401: "Unauthorized"
        case 403: "Forbidden"
        case 404: "Not Found"
        case 405: "Method Not Allowed"
        case 408: "Request Timeout"
        case 409: "Conflict"
        case 410: "Gone"
        case 413: "Content Too Large"
        case 414: "URI Too Long"
        case 417: "Expectation Failed"
        case 421: "Misdirected Request"
        case 422: "Unprocessable Content"
        case 431: "Request Header Fields Too Large"
        case 501: "Not Implemented"
        case 502: "Bad Gateway"
        case 503: "Service Unavailable"
        case 505: "HTTP Version Not Supported"
        default: ""
        }
    }
}
