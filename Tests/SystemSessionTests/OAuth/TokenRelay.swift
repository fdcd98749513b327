import Foundation
import LanyardFoundations
import TestSupport

@testable import SystemTestSupport

/// Passes token calls to a server, one connection for each, and records them.
final class TokenRelay: Sendable {
    struct Call: Sendable {
        /// `grant_type`.
        let grant: String
        let status: Int
        /// `refresh_token`; empty: none was sent.
        let refreshToken: String
        /// `resource`, as sent in the form; empty: none was sent.
        let resource: String
        /// `refresh_token` of the response; empty: none came.
        let newRefreshToken: String
        /// When the call was there, in seconds since 1970.
        let arrivedAt: Double
        /// When the server's response was there, in seconds since 1970.
        let respondedAt: Double
    }

    /// Shared with the threads of the server, which do not hold the relay.
    private final class Record: Sendable { let calls = Guarded<[Call]>([]) }

    private let record: Record
    let server: RawServer

    /// - Parameter delay: between the server's response and its way to the client.
    init(before target: RawEndpoint, delay: Duration = .zero) throws {
        let record = Record()
        self.record = record
        server = try RawServer { request in
            let arrivedAt = Date().timeIntervalSince1970
            let (message, client) = (request.message, try RawClient(target))
            defer { client.close() }
            let fields = ["Content-Type", "Authorization", "Accept"].compactMap { name in
                message[name].map { (name, $0) }
            }
            let response = try client.exchange(
                message.method, message.target, host: "\(target)", fields: fields, body: message.body)
            let form = message.bodyText.split(separator: "&")
            let field = { (name: String) in
                form.first { $0.hasPrefix(name) }.map { String($0.dropFirst(name.utf8.count)) } ?? ""
            }
            let call = Call(
                grant: field("grant_type="), status: response.status, refreshToken: field("refresh_token="),
                resource: field("resource="), newRefreshToken: (try? response.json["refresh_token"].string) ?? "",
                arrivedAt: arrivedAt, respondedAt: Date().timeIntervalSince1970)
            record.calls.withLock { $0.append(call) }
            let type = response["Content-Type"].map { [("Content-Type", $0)] } ?? []
            let whole = RawResponse.response(
                response.status, "Passed on", fields: type + [("Connection", "close")], body: response.bodyText)
            return RawResponse(whole.after(delay).steps + [.close])
        }
    }

    var endpoint: RawEndpoint { server.endpoint }
    var calls: [Call] { record.calls.withLock { $0 } }
}
