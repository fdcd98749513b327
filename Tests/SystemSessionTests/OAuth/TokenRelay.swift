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

/// Passes the bytes of token calls to a server and back, and notes when each call's body and its response have passed. What a kill of
/// the client has cut off is known from here, and not from what the client has recorded.
final class CallTap: Sendable {
    /// A connection with one call, in seconds since 1970.
    struct Call: Sendable {
        let acceptedAt: Double
        /// The first byte of the body was there; nil: none has come.
        var bodyAt: Double?
        /// The last byte of the response was on its way; nil: it was not, and the connection has ended.
        var passedAt: Double?
    }

    /// Shared with the threads, which do not hold the tap.
    private final class Record: Sendable {
        let calls = Guarded<[Call]>([])

        func note(_ place: Int, _ change: (inout Call) -> Void) { calls.withLock { change(&$0[place]) } }
    }

    private let record = Record()
    private let listener: RawSocket
    let endpoint: RawEndpoint

    init(before target: RawEndpoint) throws {
        let listener = try RawSocket.listen(at: .tcp(0))
        (self.listener, endpoint) = (listener, .tcp(listener.localPort))
        let record = record
        Thread.detachNewThread {
            while !listener.isClosed {
                guard let client = listener.accept(with: nil) else { continue }
                let place = record.calls.withLock { calls in
                    calls.append(Call(acceptedAt: Self.now))
                    return calls.count - 1
                }
                Thread.detachNewThread { Self.relay(client, to: target, place, record) }
            }
        }
    }

    deinit { listener.close() }

    var calls: [Call] { record.calls.withLock { $0 } }

    static var now: Double { Date().timeIntervalSince1970 }

    private static func relay(_ client: RawSocket, to target: RawEndpoint, _ place: Int, _ record: Record) {
        guard let server = try? RawSocket.connect(to: target) else { return client.close() }
        Thread.detachNewThread {
            var isCut = false
            while !isCut, let bytes = try? server.receive(with: nil), !bytes.isEmpty {
                isCut = (try? client.send(bytes, with: nil)) == nil
            }
            if !isCut { record.note(place) { $0.passedAt = now } }
            client.close()
        }
        var head: [UInt8] = []
        var hasBody = false
        while let bytes = try? client.receive(with: nil), !bytes.isEmpty {
            if !hasBody {
                head += bytes
                if let end = head.firstRange(of: Array("\r\n\r\n".utf8)), end.upperBound < head.count {
                    hasBody = true
                    record.note(place) { $0.bodyAt = now }
                }
            }
            guard (try? server.send(bytes, with: nil)) != nil else { return }
        }
        server.halfClose()
    }
}
