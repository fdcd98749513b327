import FlyingSocks
import Foundation

/// The body of a stream: server-sent events, then silence for a while. It ends early, with an error, when the session does.
struct EventStream: AsyncBufferedSequence {
    typealias Element = UInt8

    let state: ServiceState
    /// The session of its token; nil: a stream that has failed.
    var sessionID: String?
    var messages: [String] = []
    var holdSeconds = 0.0

    init(state: ServiceState) { self.state = state }

    /// A message with a value in canonical extended JSON. Clients decode `%`, line feed and carriage return.
    static func message(_ value: JSONValue) -> String { "data: \(escaped(ExtendedJSON.canonical(value).text))\n\n" }

    static func error(_ error: ServiceError) -> String {
        let body = JSONValue.members(["error": .string(error.text), "error_code": error.code.map { .string($0) }])
        return "event: error\ndata: \(escaped(body.text))\n\n"
    }

    private static func escaped(_ text: String) -> String { text.replacing("%", with: "%25") }

    func makeAsyncIterator() -> Iterator { Iterator(stream: self) }

    struct Iterator: AsyncBufferedIteratorProtocol {
        typealias Element = UInt8

        private let stream: EventStream
        private var rest: ArraySlice<String>
        private var end: ContinuousClock.Instant?
        private var hasEnded = false

        init(stream: EventStream) {
            self.stream = stream
            rest = stream.messages[...]
        }

        mutating func next() async throws -> UInt8? { try await nextBuffer(suggested: 1)?.first }

        mutating func nextBuffer(suggested count: Int) async throws -> [UInt8]? {
            if let message = rest.popFirst() { return Array(message.utf8) }
            guard !hasEnded, let session = stream.sessionID, stream.holdSeconds > 0 else { return nil }
            let holdEnd = end ?? ContinuousClock.now + .seconds(stream.holdSeconds)
            end = holdEnd
            while ContinuousClock.now < holdEnd {
                guard await stream.state.isLive(session) else {
                    hasEnded = true
                    return Array(EventStream.error(.watchRefused).utf8)
                }
                try await Task.sleep(for: .milliseconds(50))
            }
            return nil
        }
    }
}
