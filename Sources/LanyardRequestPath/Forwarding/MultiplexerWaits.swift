import LanyardFoundations

/// What one connection of HTTP/2 to an upstream waits for, and what is known of it until then.
struct MultiplexerWaits {
    /// The end of the turn is awaited.
    var isTurnNoted = false
    /// Reading is paused until memory is free.
    var isPaused = false
    /// The upstream has announced its limits.
    private(set) var hasSettings = false
    /// It has announced some in this read: there may be more places.
    private var hasNewLimit = false
    /// The socket takes and brings nothing any more.
    var isLost = false
    /// `ByteStream.taken` before the first of the turn's heads.
    var takenBeforeFresh: UInt64 = 0
    /// A head is queued behind the socket, whose token may be sent until then.
    var queuedHeadExpiresAt = Instant.never

    mutating func recordSettings() { (hasSettings, hasNewLimit) = (true, true) }

    /// - Returns: whether there may be more places.
    mutating func takeNewLimit() -> Bool {
        defer { hasNewLimit = false }
        return hasNewLimit
    }
}
