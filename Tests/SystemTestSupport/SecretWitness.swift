import LanyardFoundations
import TestSupport

/// Stands before the emulator and passes everything on, so that the test learns which secrets the service has given out.
final class SecretWitness: Sendable {
    /// The response to one request in place of the service's; nil: the request is passed on.
    typealias Script = @Sendable (_ request: RawMessage) -> RawResponse?

    /// A secret, by the key that it had in the response.
    struct Gift: Sendable, Equatable {
        let key: String
        let secret: String
    }

    private final class Record: Sendable {
        let gifts = Guarded<[Gift]>([])
        let script = Guarded<Script>({ _ in nil })

        func note(_ key: String, of response: RawMessage) {
            guard let secret = try? response.json[key].string else { return }
            let gift = Gift(key: key, secret: secret)
            gifts.withLock { if !$0.contains(gift) { $0.append(gift) } }
        }
    }

    private let record: Record
    private let server: RawServer

    /// - Parameter clock: of Lanyard and the service; nil: real time.
    init(before emulator: RawEndpoint, under clock: TestClock? = nil) throws {
        let record = Record()
        self.record = record
        server = try RawServer(requestsKeptMax: 0) { request in
            let script = record.script.withLock { $0 }
            return try script(request.message) ?? Self.pass(request.message, to: emulator, record)
        }
        clock?.watch(server.threads)
    }

    /// Where the identity service seems to be.
    var endpoint: RawEndpoint { server.endpoint }
    /// Access tokens, refresh tokens and API keys, in the order in which they were given out.
    var gifts: [Gift] { record.gifts.withLock { $0 } }
    /// In the order in which they were given out.
    var refreshTokens: [String] { gifts.filter { $0.key == "refresh_token" }.map(\.secret) }

    /// From now on the script answers what it likes.
    func plays(_ script: @escaping Script) { record.script.withLock { $0 = script } }

    private static func pass(_ request: RawMessage, to emulator: RawEndpoint, _ record: Record) throws -> RawResponse {
        let client = try RawClient(emulator)
        defer { client.close() }
        let fields = request.fields.filter { ["authorization", "content-type"].contains($0.name.lowercased()) }
        let response = try client.exchange(
            request.method, request.target, host: request["Host"] ?? "localhost",
            fields: fields.map { ($0.name, $0.value) },
            body: request.body)
        for key in ["refresh_token", "access_token", "key"] { record.note(key, of: response) }
        guard response.status != 204 else { return .text("HTTP/1.1 204 No Content\r\n\r\n") }
        return .response(
            response.status, "Passed", fields: [("Content-Type", response["Content-Type"] ?? "application/json")],
            body: response.bodyText)
    }
}
