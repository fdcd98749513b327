import Glibc
import LanyardFoundations
import Logging
import Synchronization

/// The TLS of one upstream as all shards share it: the context that new connections get, and what has failed.
///
/// A changed file replaces the context. Connections of the previous one carry no further request. The lock is taken when
/// a connection begins and when `/metrics` is read, and not for a request.
package final class UpstreamTrust: Sendable {
    private let current: Guarded<TLSClientContext>
    /// Grows with each replacement. A connection with an older number is not reused.
    let epoch = Atomic<Int>(0)
    private struct Failures {
        var counts: [String: Int] = [:]
        /// By reason.
        var throttles: [String: LogThrottle] = [:]
    }

    private let failures = Guarded(Failures())
    private let log: Logger
    private let authority: String

    /// - Parameter authority: the upstream's host and port, for the log.
    package init(_ context: TLSClientContext, of authority: String, log: Logger) {
        current = Guarded(context)
        self.authority = authority
        self.log = log
    }

    /// The context for a new connection, and the number that the connection keeps.
    func context() -> (TLSClientContext, epoch: Int) {
        current.withLock { ($0, epoch.load(ordering: .relaxed)) }
    }

    /// When the client certificate ends; nil: there is none. From any thread.
    package var certificateExpiresAt: WallTime? { current.withLock { $0.validity?.until } }

    func replace(_ context: TLSClientContext) {
        current.withLock {
            $0 = context
            epoch.add(1, ordering: .relaxed)
        }
    }

    /// Counts a connection that TLS has prevented or ended, and logs it: of each reason one line in 10 s.
    func record(_ error: TLSError) {
        let now = Instant.now
        let leftOut = failures.withLock { failures in
            failures.counts[error.label, default: 0] += 1
            return failures.throttles[error.label, default: LogThrottle(linesMax: 1, per: .seconds(10))]
                .admitLine(at: now)
        }
        guard let leftOut else { return }
        var metadata: Logger.Metadata = [
            "event": "upstream.tls.failed", "upstream": .string(authority), "reason": .string(error.label),
        ]
        if leftOut > 0 { metadata["left_out"] = .stringConvertible(leftOut) }
        log.warning("TLS with the upstream failed: \(error.message(.upstream))", metadata: metadata)
    }

    /// Failures so far, by `TLSError.label`. From any thread.
    package var failureCounts: [String: Int] { failures.withLock { $0.counts } }
}
