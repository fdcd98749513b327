import LanyardFoundations
import TestSupport

/// Stands before the emulator and passes everything on, so that the test learns which refresh tokens the service has given out.
final class SecretWitness: Sendable {
    private final class Record: Sendable { let tokens = Guarded<[String]>([]) }

    private let record: Record
    private let server: RawServer

    init(before emulator: RawEndpoint) throws {
        let record = Record()
        self.record = record
        server = try RawServer(requestsKeptMax: 0) { request in try Self.pass(request.message, to: emulator, record) }
    }

    /// Where the identity service seems to be.
    var endpoint: RawEndpoint { server.endpoint }
    /// In the order in which they were given out.
    var refreshTokens: [String] { record.tokens.withLock { $0 } }

    private static func pass(_ request: RawMessage, to emulator: RawEndpoint, _ record: Record) throws -> RawResponse {
        let client = try RawClient(emulator)
        defer { client.close() }
        let fields = request.fields.filter { ["authorization", "content-type"].contains($0.name.lowercased()) }
        let response = try client.exchange(
            request.method, request.target, host: request["Host"] ?? "localhost",
            fields: fields.map { ($0.name, $0.value) },
            body: request.body)
        if let token = try? response.json["refresh_token"].string {
            record.tokens.withLock { if !$0.contains(token) { $0.append(token) } }
        }
        guard response.status != 204 else { return .text("HTTP/1.1 204 No Content\r\n\r\n") }
        return .response(
            response.status, "Passed", fields: [("Content-Type", response["Content-Type"] ?? "application/json")],
            body: response.bodyText)
    }
}
