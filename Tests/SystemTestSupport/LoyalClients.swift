import Foundation
import LanyardFoundations
import TestSupport

/// Clients that keep one connection each and send the next request when the response is there, until a response says `Connection: close`:
/// then they see the connection end and stop. Nothing else is right.
final class LoyalClients: Sendable {
    struct Outcome: Sendable {
        var responses = 0
        /// Clients that were told to go, in a response that was whole.
        var dismissed = 0
        /// What went wrong, in words.
        var failures: [String] = []
        var running = 0
    }

    /// What a client sends as its `number`th request, whole; and the body that the response must have.
    struct Request: Sendable {
        let method: String
        let bytes: [UInt8]
        let bodyCount: Int
    }

    private let outcomeBox: Shared
    private final class Shared: Sendable { let box = Guarded(Outcome()) }

    /// Connects all; blocks until then.
    init(
        _ count: Int, to endpoint: RawEndpoint, pauseMost: Duration,
        requests: @escaping @Sendable (_ client: Int, _ number: Int) -> Request
    ) throws {
        let shared = Shared()
        outcomeBox = shared
        let clients = try (0..<count).map { _ in try RawClient(endpoint) }
        shared.box.withLock { $0.running = count }
        for (number, client) in clients.enumerated() {
            Thread.detachNewThread {
                let failure = Self.run(client, number, pauseMost, requests, shared)
                shared.box.withLock { outcome in
                    outcome.running -= 1
                    if let failure { outcome.failures.append(failure) } else { outcome.dismissed += 1 }
                }
            }
        }
    }

    var outcome: Outcome { outcomeBox.box.withLock { $0 } }

    /// Returns what went wrong, or nil.
    private static func run(
        _ client: RawClient, _ number: Int, _ pauseMost: Duration, _ requests: (Int, Int) -> Request, _ shared: Shared
    ) -> String? {
        var random = SeededGenerator(UInt64(number))
        defer { client.close() }
        for index in 0... {
            let request = requests(number, index)
            do {
                try client.send(request.bytes)
                let response = try client.response(to: request.method)
                guard response.status == 200, response.bodyCount == request.bodyCount else {
                    return "client \(number), request \(index): \(response.headText)\(response.bodyText.prefix(200))"
                }
                shared.box.withLock { $0.responses += 1 }
                if response["Connection"]?.lowercased() == "close" {
                    let rest = try client.readToEnd()
                    return rest.isEmpty ? nil : "client \(number): bytes behind the last answer"
                }
            } catch {
                return "client \(number), request \(index): \(error)"
            }
            Thread.sleep(forTimeInterval: .random(in: 0...(pauseMost / .seconds(1)), using: &random))
        }
        return nil
    }
}
