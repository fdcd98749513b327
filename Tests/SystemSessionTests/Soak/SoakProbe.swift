import Foundation
import Glibc
import LanyardFoundations
import TestSupport

@testable import SystemTestSupport

/// Asks the health listener, on a new connection each time, and keeps the slowest response.
///
/// A response's time ends when the kernel has it: how late this process comes for it says nothing of Lanyard.
final class SoakProbe: Sendable {
    private struct State {
        var isStopped = false
        var isRunning = true
        var count = 0
        var slowest = 0.0
        var slowestPath = ""
        var failures: [String] = []
    }

    private let state: Shared = Shared()
    private final class Shared: Sendable { let box = Guarded(State()) }

    init(_ endpoint: RawEndpoint, findings: SoakFindings) {
        let state = state
        Thread.detachNewThread {
            // Its own delays are not to be taken for Lanyard's; without root it stays as it is.
            setpriority(__priority_which_t(PRIO_PROCESS.rawValue), 0, -10)
            let paths = ["/livez", "/readyz", "/healthz", "/startupz"]
            for number in 0... where !state.box.withLock({ $0.isStopped }) {
                let path = paths[number % paths.count]
                let outcome = Result { try Self.ask(endpoint, path) }
                state.box.withLock { state in
                    state.count += 1
                    switch outcome {
                    case .success(let seconds) where seconds > state.slowest:
                        (state.slowest, state.slowestPath) = (seconds, path)
                    case .success: break
                    case .failure(let error): state.failures.append("\(path): \(error)")
                    }
                }
                findings.countAnswer("health probes")
                // A sleep, as the probe is what all else is measured by. Each connection keeps a port for a minute after its end: without
                // a pause the ports run out.
                Thread.sleep(forTimeInterval: 0.04)
                if state.box.withLock({ $0.isStopped }) { break }
            }
            state.box.withLock { $0.isRunning = false }
        }
    }

    /// Ends it after the question in progress.
    func stop() { state.box.withLock { $0.isStopped = true } }

    var isRunning: Bool { state.box.withLock { $0.isRunning } }
    /// Questions so far.
    var count: Int { state.box.withLock { $0.count } }
    /// The slowest response in seconds.
    var slowest: Double { state.box.withLock { $0.slowest } }
    /// What it was the response of.
    var slowestPath: String { state.box.withLock { $0.slowestPath } }
    /// Questions without a sound response.
    var failures: [String] { state.box.withLock { $0.failures } }

    /// Seconds from the question to the arrival of the response.
    private static func ask(_ endpoint: RawEndpoint, _ path: String) throws -> Double {
        let start = Date().timeIntervalSince1970
        let client = try RawClient(endpoint)
        defer { client.close() }
        client.socket.stampArrivals()
        try client.send("GET \(path) HTTP/1.1\r\nHost: \(endpoint)\r\nConnection: close\r\n\r\n")
        let response = try client.response()
        guard [200, 503].contains(response.status) else { throw TestFailure("\(response.status)") }
        return (client.reader.lastArrival ?? Date().timeIntervalSince1970) - start
    }
}
