import FlyingFox
import FlyingSocks
import Foundation

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
