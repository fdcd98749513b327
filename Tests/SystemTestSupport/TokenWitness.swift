import Foundation
import LanyardFoundations
import TestSupport

/// An upstream of plain sockets that answers 200 and remembers, for each access token it was shown, when it saw it first and last.
final class TokenWitness: Sendable {
    struct Sighting: Sendable {
        /// Seconds since 1970.
        var first: Double
        var last: Double
        var count: Int
    }

    private final class Record: Sendable {
        /// By the token's `jti`.
        let sightings = Guarded<[String: Sighting]>([:])
        let withoutToken = Guarded(0)
        let identifiers = Guarded<[String: String]>([:])
        let clock: TestClock?

        init(_ clock: TestClock?) { self.clock = clock }

        /// Asked on the server's threads, which may come late; what counts is when the request came. Parsing a token once is enough.
        func note(_ request: RawServer.Request) {
            let now = clock?.now ?? request.arrivedAt ?? Date().timeIntervalSince1970
            let message = request.message
            guard let token = message["Authorization"], message.values("Authorization").count == 1,
                let id = identifier(token)
            else {
                withoutToken.withLock { $0 += 1 }
                return
            }
            sightings.withLock { sightings in
                var sighting = sightings[id] ?? Sighting(first: now, last: now, count: 0)
                sighting.last = now
                sighting.count += 1
                sightings[id] = sighting
            }
        }

        private func identifier(_ token: String) -> String? {
            if let known = identifiers.withLock({ $0[token] }) { return known }
            let parts = token.split(separator: ".")
            guard token.hasPrefix("Bearer "), parts.count == 3 else { return nil }
            var text = parts[1].replacing("-", with: "+").replacing("_", with: "/")
            text += String(repeating: "=", count: (4 - text.utf8.count % 4) % 4)
            guard let data = Data(base64Encoded: String(text)), let id = try? JSON(data)["jti"].string else {
                return nil
            }
            identifiers.withLock { $0[token] = id }
            return id
        }
    }

    private let record: Record
    let server: RawServer

    /// - Parameter clock: of Lanyard and the identity service; nil: real time.
    init(under clock: TestClock? = nil) throws {
        let record = Record(clock)
        self.record = record
        server = try RawServer(requestsKeptMax: 0) { request in
            record.note(request)
            return .response()
        }
        clock?.watch(server.threads)
    }

    var sightings: [String: Sighting] { record.sightings.withLock { $0 } }
    /// Requests that came without exactly one token that can be read.
    var withoutToken: Int { record.withoutToken.withLock { $0 } }

    /// Uses of tokens after their end, or of tokens that the service never gave out; in words, none if all is well.
    func expiredUses(issued: [JSON]) -> [String] {
        let ends = Dictionary(issued.map { ($0["id"].string ?? "", $0["expires_at"].double ?? 0) }) { $1 }
        return sightings.compactMap { id, sighting in
            guard let end = ends[id] else { return "token \(id) was never given out" }
            return sighting.last > end ? "token \(id) was used \(sighting.last - end) s after its end" : nil
        }
    }
}
