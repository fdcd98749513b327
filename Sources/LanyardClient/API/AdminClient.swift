import LanyardFoundations
import LanyardSettings

/// Calls the admin API of a running Lanyard (architecture-control.md 7.4), or a broker. Each call has a connection of its own.
package struct AdminClient: Sendable {
    private let client: HTTPClient
    private let token: Secret?
    private let capability: Secret?

    /// - Parameters:
    ///   - token: for calls over TCP.
    ///   - capability: for a broker whose callers are known by one.
    ///   - limits: of each call.
    package init(
        _ address: ListenerSettings.Address, token: Secret?, capability: Secret? = nil,
        limits: HTTPClient.Limits = .admin
    ) {
        client = HTTPClient(address, limits: limits)
        self.token = token
        self.capability = capability
    }

    private init(_ client: HTTPClient, _ token: Secret?, _ capability: Secret?) {
        self.client = client
        self.token = token
        self.capability = capability
    }

    /// The same whose calls end within this time.
    package func limited(to timeout: Duration) -> AdminClient {
        var limits = HTTPClient.Limits.admin
        limits.responseTimeout = timeout
        return AdminClient(HTTPClient(client.address, limits: limits), token, capability)
    }

    /// Where it calls.
    package var address: ListenerSettings.Address { client.address }

    /// One call; its response if it succeeded.
    ///
    /// - Parameter path: with `/v1`; already escaped.
    /// - Throws: `noResponse` if the program cannot be reached or its response cannot be read; `problem` if the call was refused, with who
    ///   must act; `notAdminAPI` if another program has responded. The operator acts on all of them.
    package func call(_ method: String, _ path: String, body: Secret? = nil) throws(AdminCallError) -> HTTPResponse {
        let response: HTTPResponse
        do throws(HTTPClientError) {
            var request = HTTPClient.Request(method, path, token: token, body: body)
            request.capability = capability
            response = try client.perform(request)
        } catch {
            throw .noResponse(error)
        }
        switch (response.status, response.contentType) {
        case (204, _), (200..<300, "application/json"): return response
        case (_, ProblemDetail.contentType):
            guard let problem = ReceivedProblem(response) else { throw .notAdminAPI(status: response.status) }
            throw .problem(problem)
        default: throw .notAdminAPI(status: response.status)
        }
    }

    /// One call whose response is read as JSON.
    ///
    /// - Throws: as `call` does; `notAdminAPI` also for a response of success that is not JSON.
    package func json(_ method: String, _ path: String, body: Secret? = nil) throws(AdminCallError) -> JSONValue {
        let response = try call(method, path, body: body)
        guard let value = JSONValue.read(response.body) else { throw .notAdminAPI(status: response.status) }
        return value
    }

    /// Version and users of the running Lanyard.
    ///
    /// - Parameter query: which users and routes.
    /// - Throws: as `call` does; `notAdminAPI` also for a document that is no status, such as another program's.
    package func status(_ query: StatusQuery = StatusQuery()) throws(AdminCallError) -> StatusReport {
        guard let report = StatusReport(try json("GET", query.path("/v1/status"))) else {
            throw .notAdminAPI(status: 200)
        }
        return report
    }

    /// A text as one segment of a path (RFC 3986 §2.1): all but unreserved characters are escaped.
    package static func segment(_ text: String) -> String {
        var escaped = ""
        for byte in text.utf8 {
            switch byte {
            case 0x30...0x39, 0x41...0x5a, 0x61...0x7a, 0x2d, 0x2e, 0x5f, 0x7e:
                escaped.unicodeScalars.append(Unicode.Scalar(byte))
            default:
                escaped += "%"
                for digit in [byte >> 4, byte & 15] {
                    escaped.unicodeScalars.append(Unicode.Scalar(Hex.digit(digit)))
                }
            }
        }
        return escaped
    }
}

/// Why a call did not succeed. A type of its own, because the case decides the exit code of a command.
package enum AdminCallError: Error, Sendable {
    /// There is no response.
    case noResponse(HTTPClientError)
    /// The response to the call is a problem.
    case problem(ReceivedProblem)
    /// The response is not one of an admin API.
    case notAdminAPI(status: Int)
}
