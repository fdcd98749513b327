import Foundation
import LanyardFoundations
import TestSupport

/// Clients that each send the next request when the response to the last one is there, on a kept connection, until they are stopped.
final class ClosedLoop: Sendable {
    struct Tally: Sendable {
        var requests = 0
        /// What went wrong, in words; at most the first twenty.
        var failures: [String] = []
        var failed = 0
        var slowest = Duration.zero
    }

    private struct State {
        var tally = Tally()
        var stopping = false
        var running = 0
    }

    private let state = Guarded(State())

    /// - Parameter pause: between a response and the next request.
    init(clients: Int, _ endpoint: RawEndpoint, _ path: String, pause: Duration = .zero) {
        state.withLock { $0.running = clients }
        for _ in 0..<clients { Thread.detachNewThread { self.run(endpoint, path, pause) } }
    }

    var tally: Tally { state.withLock { $0.tally } }

    /// Lets every client finish its request.
    func stop() async throws -> Tally {
        beginStopping()
        try await eventually("every client has its last answer") {
            state.withLock { $0.running == 0 }
        }
        return tally
    }

    fileprivate func beginStopping() { state.withLock { $0.stopping = true } }

    private func run(_ endpoint: RawEndpoint, _ path: String, _ pause: Duration) {
        var client: RawClient?
        while !state.withLock({ $0.stopping }) {
            let start = ContinuousClock.now
            var failure: String?
            do {
                let connection = try client ?? RawClient(endpoint)
                client = connection
                let response = try connection.exchange("GET", path, host: "\(endpoint)")
                if response.status != 200 { failure = "\(response.status) \(response.bodyText.prefix(200))" }
                if response["Connection"]?.lowercased() == "close" { client = nil }
            } catch {
                failure = "\(error)"
                client = nil
            }
            let time = ContinuousClock.now - start
            state.withLock { state in
                state.tally.requests += 1
                state.tally.slowest = max(state.tally.slowest, time)
                guard let failure else { return }
                state.tally.failed += 1
                guard state.tally.failures.count < 20 else { return }
                state.tally.failures.append(
                    "after \(time) at \(Date().ISO8601Format(.init(includingFractionalSeconds: true))): \(failure)")
            }
            // A refused client does not spin.
            Thread.sleep(forTimeInterval: max(pause / .seconds(1), failure == nil ? 0 : 0.05))
        }
        state.withLock { $0.running -= 1 }
    }
}

extension [ClosedLoop] {
    /// The load lasts until it has brought what it is judged by, however fast the machine is. Then every client finishes its request.
    ///
    /// - Parameters:
    ///   - what: what has to happen under the load, such as a refresh.
    ///   - count: how often.
    ///   - requests: responses that all clients together get between two times.
    ///   - number: how often it has happened so far; what was before the call does not count.
    /// - Returns: the tally of each loop.
    func run(
        untilEach what: String, times count: Int, requests: Int, _ number: () async throws -> Int
    ) async throws -> [ClosedLoop.Tally] {
        try await end {
            let numberBefore = try await number()
            for turn in 1...count {
                let requestsBefore = self.requests
                try await eventually("\(what) \(turn) of \(count), and \(requests) requests since the one before") {
                    guard self.requests >= requestsBefore + requests else { return false }
                    return try await number() >= numberBefore + turn
                }
            }
        }
    }

    /// The load lasts until so many requests have a response.
    func run(requests: Int) async throws -> [ClosedLoop.Tally] {
        try await end { try await eventually("\(requests) requests") { self.requests >= requests } }
    }

    /// Ends the load after `work`, also when that throws.
    private func end(after work: () async throws -> Void) async throws -> [ClosedLoop.Tally] {
        do {
            try await work()
        } catch {
            for loop in self { loop.beginStopping() }
            throw error
        }
        var tallies: [ClosedLoop.Tally] = []
        for loop in self { tallies.append(try await loop.stop()) }
        return tallies
    }

    /// Requests of all loops so far.
    private var requests: Int { reduce(0) { $0 + $1.tally.requests } }
}
