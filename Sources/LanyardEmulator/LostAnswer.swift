import FlyingFox
import FlyingSocks
import Foundation

/// Ways of losing an answer after the call has had its effect.
enum LostResponse: Equatable, Sendable {
    /// The connection closes without a byte.
    case closed
    /// The head and half of the body arrive, then the connection closes.
    case cut
    /// Nothing comes until the client gives up, or for as long.
    case silent(seconds: Double)

    /// How the answer goes out, or does not. Returns at once unless silence is asked for.
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

/// FlyingFox asks whoever takes a connection over before it writes anything: refusing then closes it without a byte.
private struct RefusingWebSocketHandler: WSHandler {
    func makeFrames(for client: AsyncThrowingStream<WSFrame, any Error>) async throws -> AsyncStream<WSFrame> {
        throw TornBodyError()
    }
}

private struct TornBodyError: Error {}

/// Half of what was promised, then a failure, which closes the connection.
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
