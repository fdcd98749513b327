import FlyingFox
import Foundation

/// A response of the emulator, before it becomes FlyingFox's.
///
/// Its date and phrases are not Lanyard's own code, like all of the emulator (architecture.md 3.2).
struct EmulatorResponse: Sendable {
    var status: Int
    var fields: [(name: String, value: String)]
    var body: String
    /// Sent in place of the body.
    var stream: EventStream?

    init(_ status: Int, fields: [(name: String, value: String)] = [], body: String = "") {
        self.status = status
        self.fields = fields
        self.body = body
    }

    /// A JSON response with exactly `application/json`, because clients of the real service accept nothing else.
    static func json(_ status: Int, _ value: JSONValue, fields: [(name: String, value: String)] = [])
        -> EmulatorResponse
    {
        EmulatorResponse(status, fields: fields + [("Content-Type", "application/json")], body: value.text)
    }

    /// The response for FlyingFox. A response to HEAD has the length and no body.
    ///
    /// - Parameter date: the service's clock.
    func httpResponse(to method: HTTPMethod, date: Date) -> HTTPResponse {
        var headers = HTTPHeaders()
        for (name, value) in fields { headers.setValues([value], for: HTTPHeader(name)) }
        let data = Data(body.utf8)
        if let stream, method != .HEAD {
            headers[.date] = Self.text(of: date)
            return HTTPResponse(
                statusCode: HTTPStatusCode(status, phrase: Self.phrase(status)), headers: headers,
                body: HTTPBodySequence(from: stream))
        }
        // Clients compute their clock's skew from it.
        headers[.date] = Self.text(of: date)
        if method == .HEAD { headers[.contentLength] = String(data.count) }
        return HTTPResponse(
            statusCode: HTTPStatusCode(status, phrase: Self.phrase(status)), headers: headers,
            body: method == .HEAD ? Data() : data)
    }

    /// A date in the format of RFC 9110 §5.6.7.
    private static func text(of date: Date) -> String {
        var seconds = time_t(date.timeIntervalSince1970)
        var parts = tm()
        gmtime_r(&seconds, &parts)
        var text = [CChar](repeating: 0, count: 40)
        let length = strftime(&text, text.count, "%a, %d %b %Y %H:%M:%S GMT", &parts)
        return String(decoding: text.prefix(length).map(UInt8.init(bitPattern:)), as: UTF8.self)
    }

    private static func phrase(_ status: Int) -> String {
        switch status {
        case 200: "OK"
        case 201: "Created"
        case 202: "Accepted"
        case 204: "No Content"
        case 302: "Found"
        case 303: "See Other"
        case 400: "Bad Request"
        case 401: "Unauthorized"
        case 403: "Forbidden"
        case 404: "Not Found"
        case 405: "Method Not Allowed"
        case 409: "Conflict"
        case 410: "Gone"
        case 413: "Content Too Large"
        case 429: "Too Many Requests"
        case 500: "Internal Server Error"
        case 501: "Not Implemented"
        case 502: "Bad Gateway"
        case 503: "Service Unavailable"
        default: "Status"
        }
    }
}
