import Glibc
import LanyardFoundations
import Logging
import Synchronization

/// The TLS of one upstream as all shards share it: the latest context, and what has failed.
///
/// A changed file replaces the context. Each shard uses it from one turn on (`ShardTrust`). The lock is taken when a pool
/// is made and when `/metrics` is read, and not for a request.
package final class UpstreamTrust: Sendable {
    private let latest: Guarded<TLSClientContext>
    private struct Failures {
        var counts: [String: Int] = [:]
        /// By reason.
        var throttles: [String: LogThrottle] = [:]
    }

    private let failures = Guarded(Failures())
    /// When the certificate ends that the upstream has shown last, in nanoseconds since 1970; 0: it has shown none.
    private let peerEnd = Atomic<Int64>(0)
    private let log: Logger
    private let authority: String

    /// - Parameter authority: the upstream's host and port, for the log.
    package init(_ context: TLSClientContext, of authority: String, log: Logger) {
        latest = Guarded(context)
        self.authority = authority
        self.log = log
    }

    /// For a pool that is made now.
    var context: TLSClientContext { latest.withLock { $0 } }

    /// When the client certificate ends; nil: there is none. From any thread.
    package var certificateExpiresAt: WallTime? { latest.withLock { $0.certificateExpiresAt } }

    /// When the certificate ends that the upstream has shown in the latest handshake; nil: there was none. From any thread.
    package var peerCertificateExpiresAt: WallTime? {
        let nanoseconds = peerEnd.load(ordering: .relaxed)
        return nanoseconds == 0 ? nil : WallTime(nanoseconds: nanoseconds)
    }

    /// A handshake is complete.
    func recordPeerCertificate(endingAt end: WallTime?) {
        if let end { peerEnd.store(end.nanoseconds, ordering: .relaxed) }
    }

    func replace(_ context: TLSClientContext) { latest.withLock { $0 = context } }

    /// Counts a connection that TLS has prevented or ended, and logs it: of each reason one line in 10 s.
    func record(_ error: TLSError, _ certificate: RefusedCertificate? = nil) {
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
        log.warning("TLS with the upstream failed: \(error.message(.upstream, certificate))", metadata: metadata)
    }

    /// Failures so far, by `TLSError.label`. From any thread.
    package var failureCounts: [String: Int] { failures.withLock { $0.counts } }
}

/// The context that new connections of one shard to one upstream get. Belongs to the shard's queue, which
/// `UpstreamPool` and `Connector` check.
///
/// A reload replaces it in the turn in which the shard gets the routes, so no request pairs one with the other's.
final class ShardTrust {
    private(set) var context: TLSClientContext
    /// Grows with each replacement. A connection with an older number carries no further request.
    private(set) var epoch = 0

    init(_ context: TLSClientContext) { self.context = context }

    /// - Returns: false: it is the present one.
    func replace(_ context: TLSClientContext) -> Bool {
        guard context !== self.context else { return false }
        self.context = context
        epoch += 1
        return true
    }
}
