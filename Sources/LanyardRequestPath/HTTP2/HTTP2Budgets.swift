import CNGHTTP2
import LanyardFoundations

/// What the peer of an HTTP/2 connection may cause without a request (H40 to H42): each kind of frame that costs work, and no message,
/// has a rate. Does no I/O.
struct HTTP2Budgets {
    /// Resets of streams, by the peer and provoked by it: an honest client cancels, too (H40).
    private static let resetLimit = AllowedRate.Limit(burst: 1000, interval: .milliseconds(30))
    /// PING, SETTINGS, PRIORITY, unknown frames, DATA without bytes: honest clients send a few for each request.
    private static let controlLimit = AllowedRate.Limit(burst: 1000, interval: .milliseconds(10))
    /// Updates of windows besides those that DATA has paid for: clients send two for each KiB at most.
    private static let windowLimit = AllowedRate.Limit(burst: 1000, interval: .milliseconds(10))
    private static let updatesPerData = 64

    private var resets = AllowedRate()
    private var control = AllowedRate()
    private var windows = AllowedRate()
    private var dataSent = 0

    /// Charges the frames of one read.
    ///
    /// - Parameter refused: streams that were refused because they were too many.
    /// - Returns: the limit that they pass; nil: none.
    mutating func charge(
        _ counts: lanyard_h2_counts, refused: Int, at now: Instant
    ) -> HTTP2End? {
        dataSent &+= Int(counts.data_sent)
        let gone = Int(counts.resets) + refused
        if gone > 0, !resets.admit(gone, by: Self.resetLimit, at: now) { return .resets }
        // A peer that estimates the way's capacity sends a PING for some of the DATA, as servers of gRPC do.
        let unpaid = Int(counts.controls) - Int(counts.data_sent) - Int(counts.data_received)
        if unpaid > 0, !control.admit(unpaid, by: Self.controlLimit, at: now) {
            return .controlFrames
        }
        windows.pay(upTo: dataSent * Self.updatesPerData)
        if counts.window_updates > 0, !windows.admit(Int(counts.window_updates), by: Self.windowLimit, at: now) {
            return .windowUpdates
        }
        return nil
    }
}
