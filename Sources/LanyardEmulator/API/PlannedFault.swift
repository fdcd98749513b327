import FlyingFox
import FlyingSocks
import Foundation

/// A fault for the next calls of a route: a response in place of the real one, so that the call has no effect, or the loss of the real
/// response after the effect. A relay before the emulator makes other transport faults.
struct PlannedFault: Sendable {
    /// The names of faults in `/emulator/faults`.
    enum Kind: String, CaseIterable, Sendable {
        case status, gone, html, malformed, unavailable, maintenance
        case serverError = "server_error"
        case emptyUnauthorized = "empty_unauthorized"
        case unknownApp = "unknown_app"
        case tooManyRequests = "too_many_requests"
        case responseClosed = "answer_closed"
        case responseCut = "answer_cut"
        case responseSilent = "answer_silent"
        case responseLate = "answer_late"
    }

    enum Effect: Sendable {
        case instead(EmulatorResponse)
        /// An error of the service, as its own responses have it.
        case refused(ServiceError, retryAfter: Int?)
        case lost(LostResponse)
        case late(seconds: Double)
    }

    /// nil: every route of the API except `protected`.
    let route: Route?
    let kind: Kind
    let effect: Effect
    /// Calls that will still fail; nil: all calls until the fault is cleared.
    var remaining: Int?

    func matches(_ route: Route) -> Bool { self.route.map { $0 == route } ?? (route != .protected) }

    /// Reads `{"route", "fault", "times"?, "status"?, "body"?, "content_type"?, "retry_after"?,
    /// "milliseconds"?}`.
    ///
    /// - Returns: nil if a name is unknown or a number is not a number.
    init?(_ value: JSONValue, appID: String) {
        guard let name = value["route"]?.string, let kind = value["fault"]?.string.flatMap(Kind.init(rawValue:)) else {
            return nil
        }
        if name == "*" {
            route = nil
        } else {
            guard let known = Route(rawValue: name) else { return nil }
            route = known
        }
        if let times = value["times"] {
            guard let count = times.int, count > 0 else { return nil }
            remaining = count
        } else {
            remaining = nil
        }
        self.kind = kind
        effect = Self.effect(kind, value, appID)
    }

    /// The status of the response that replaces the real one; nil: none does.
    var status: Int? {
        switch effect {
        case .instead(let response): response.status
        case .refused(let error, _): error.status
        case .lost, .late: nil
        }
    }

    private static func effect(_ kind: Kind, _ value: JSONValue, _ appID: String) -> Effect {
        let seconds = value["milliseconds"]?.double.map { $0 / 1000 }
        switch kind {
        case .status:
            let type = value["content_type"]?.string ?? "application/json"
            let after = value["retry_after"]?.int.map { [("Retry-After", String($0))] } ?? []
            return .instead(
                EmulatorResponse(
                    value["status"]?.int ?? 500, fields: after + [("Content-Type", type)],
                    body: value["body"]?.string ?? ""))
        case .serverError:
            return .refused(ServiceError(500, "InternalServerError", "internal server error"), retryAfter: nil)
        case .unavailable:
            return .refused(ServiceError(503, nil, "service unavailable"), retryAfter: value["retry_after"]?.int ?? 1)
        case .tooManyRequests: return .refused(.tooManyRequests, retryAfter: value["retry_after"]?.int ?? 1)
        case .html:
            return .instead(
                EmulatorResponse(
                    200, fields: [("Content-Type", "text/html")],
                    body: "<!DOCTYPE html><title>Sign in</title><p>Welcome to the hotel."))
        case .malformed:
            return .instead(
                EmulatorResponse(200, fields: [("Content-Type", "application/json")], body: #"{"access_token": "#))
        case .emptyUnauthorized: return .instead(EmulatorResponse(401))
        case .maintenance: return .refused(.maintenance, retryAfter: nil)
        // The ended service sends neither an id nor a link.
        case .gone: return .instead(.json(410, .members(["error": .string(ServiceError.gone.text)])))
        case .unknownApp: return .refused(.unknownApp(appID), retryAfter: nil)
        case .responseClosed: return .lost(.closed)
        case .responseCut: return .lost(.cut)
        // A day is longer than any client waits.
        case .responseSilent: return .lost(.silent(seconds: seconds ?? 86_400))
        case .responseLate: return .late(seconds: seconds ?? 1)
        }
    }
}

/// Ways to lose a response after the call has had its effect.
enum LostResponse: Equatable, Sendable {
    /// The connection closes without a byte.
    case closed
    /// The head and half of the body are sent, then the connection closes.
    case cut
    /// Nothing is sent for this long, or until the client closes.
    case silent(seconds: Double)

    /// The response that FlyingFox gets in place of the real one. Returns at once except for `silent`.
    func httpResponse(instead response: EmulatorResponse, to method: HTTPMethod, date: Date) async -> HTTPResponse {
        switch self {
        case .cut where !response.body.isEmpty:
            var httpResponse = response.httpResponse(to: method, date: date)
            let body = Data(response.body.utf8)
            httpResponse.payload = .httpBody(HTTPBodySequence(from: TornBody(data: body), count: body.count))
            return httpResponse
        case .silent(let seconds): try? await Task.sleep(for: .seconds(seconds))
        case .closed, .cut: break
        }
        return HTTPResponse(webSocket: RefusingWebSocketHandler())
    }
}

/// A WebSocket handler that refuses. FlyingFox calls it before it writes anything, so refusing closes the connection without a byte.
private struct RefusingWebSocketHandler: WSHandler {
    func makeFrames(for client: AsyncThrowingStream<WSFrame, any Error>) async throws -> AsyncStream<WSFrame> {
        throw TornBodyError()
    }
}

/// Makes FlyingFox close the connection. A type of its own, because it carries nothing.
private struct TornBodyError: Error {}

/// Sends half of the body, then fails, which closes the connection.
private struct TornBody: AsyncBufferedSequence {
    typealias Element = UInt8
    let data: Data

    func makeAsyncIterator() -> Iterator { Iterator(rest: data.prefix(data.count / 2)) }

    struct Iterator: AsyncBufferedIteratorProtocol {
        typealias Element = UInt8
        var rest: Data

        mutating func next() async throws -> UInt8? { try await nextBuffer(suggested: 1)?.first }

        mutating func nextBuffer(suggested count: Int) async throws -> Data? {
            guard !rest.isEmpty else { throw TornBodyError() }
            defer { rest = Data() }
            return rest
        }
    }
}
