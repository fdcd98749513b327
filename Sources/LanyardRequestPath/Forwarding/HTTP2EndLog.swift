import LanyardFoundations
import Logging

/// How connections of HTTP/2 to one upstream have ended by errors: counted, and logged, of each reason one line in 10 s. May be used
/// from any thread.
final class HTTP2EndLog: Sendable {
    private struct Ends {
        var counts: [String: Int] = [:]
        /// By reason.
        var throttles: [String: LogThrottle] = [:]
    }

    private let ends = Guarded(Ends())
    private let log: Logger
    private let authority: String

    /// - Parameter authority: the upstream's host and port.
    init(_ log: Logger, of authority: String) { (self.log, self.authority) = (log, authority) }

    /// By reason.
    var counts: [String: Int] { ends.withLock(\.counts) }

    func record(_ reason: String, byUpstream: Bool) {
        let leftOut = ends.withLock { ends in
            ends.counts[reason, default: 0] += 1
            return ends.throttles[reason, default: LogThrottle(linesMax: 1, per: .seconds(10))].admitLine(at: .now)
        }
        guard let leftOut else { return }
        var metadata: Logger.Metadata = [
            "event": "upstream.ended", "upstream": .string(authority), "reason": .string(reason),
        ]
        if leftOut > 0 { metadata["left_out"] = .stringConvertible(leftOut) }
        log.warning(
            byUpstream
                ? "the upstream has ended a connection of HTTP/2 with an error"
                : "a connection of HTTP/2 to the upstream was ended: see the reason",
            metadata: metadata)
    }

    func recordPin() {
        log.notice(
            "the upstream asks for HTTP/1.1, which is used from now on until a reload",
            metadata: ["event": "upstream.downgraded", "upstream": .string(authority)])
    }
}
