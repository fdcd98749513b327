import LanyardFoundations

/// The attempt to send one request to its upstream: its token, the wait for a token or a connection, the
/// connection, and how far its head has come.
///
/// It does no I/O: `ClientExchange` parks, connects and sends. The exchange checks the queue.
struct UpstreamAttempt: ~Copyable {
    /// Of the request's user; nil before the first one has come, and in a tunnel.
    private(set) var token: AccessToken?
    /// Of the latest token, also after its release.
    private(set) var generation: UInt64?
    /// The request waits for a token and counts as a parked one.
    private var parked: Permit?
    /// A connection is being acquired.
    private var acquisition: UpstreamPool.Acquisition?
    private var lease: UpstreamLease?
    /// The request was sent with the route's token; false if the client's own authorization was sent.
    private(set) var hasSentToken = false
    /// While part of the head is queued: what `ByteStream.taken` was before it.
    private var queuedHeadStart: UInt64?
    /// When the last byte of the request was sent; `.never` before that.
    private(set) var sentAt = Instant.never
    /// Lanyard sends `100 Continue` itself if the upstream sends none in time (http-forwarding.md 11.2).
    private(set) var isContinueDue = false

    // MARK: Token

    /// The token that the request is sent with.
    ///
    /// - Returns: false if an earlier token of the request is another account's. The request may have been sent with
    ///   it, and the user may be another account by now (security.md T18).
    mutating func assign(_ token: AccessToken) -> Bool {
        if let old = self.token, old.accountEpoch != token.accountEpoch { return false }
        self.token = token
        generation = token.generation
        return true
    }

    /// The token that a replay is sent with: another one of the same account.
    mutating func renew(_ token: AccessToken) {
        self.token = token
        generation = token.generation
    }

    /// A tunnel lasts much longer than its token.
    mutating func releaseToken() { token = nil }

    /// The request waits for a token.
    var isParked: Bool { parked != nil }

    mutating func park(_ permit: consuming Permit) { parked = consume permit }

    /// - Returns: whether the request was parked.
    mutating func unpark() -> Bool {
        defer { parked = nil }
        return isParked
    }

    // MARK: Connection

    mutating func beginAcquisition(_ acquisition: UpstreamPool.Acquisition) { self.acquisition = acquisition }

    /// - Returns: the acquisition that was in progress.
    mutating func endAcquisition() -> UpstreamPool.Acquisition? {
        defer { acquisition = nil }
        return acquisition
    }

    mutating func attach(_ lease: consuming UpstreamLease) { self.lease = consume lease }

    /// nil: the request has none, or none any more.
    @inline(__always) var connection: UpstreamConnection? {
        switch lease {
        case .some(let lease): lease.connection
        case .none: nil
        }
    }

    /// The same of HTTP/2; nil: HTTP/1.1, or none.
    @inline(__always) var stream: UpstreamStream? {
        switch lease {
        case .some(let lease): lease.stream
        case .none: nil
        }
    }

    /// The request has a stream of HTTP/2.
    @inline(__always) var isStream: Bool {
        switch lease {
        case .some(let lease): lease.isStream
        case .none: false
        }
    }

    /// The request and the connection part.
    mutating func detach() -> UpstreamLease? {
        isContinueDue = false
        queuedHeadStart = nil
        return lease.take()
    }

    /// No byte is queued for the upstream, and it takes further ones. False without a connection.
    var isFlushed: Bool {
        switch lease {
        case .some(let lease): lease.isFlushed
        case .none: false
        }
    }

    /// Some bytes of the request are queued.
    var hasQueue: Bool {
        switch lease {
        case .some(let lease): lease.hasQueue
        case .none: false
        }
    }

    /// Bytes of the request that the upstream has not taken. 0 without a connection.
    var queuedBytes: Int {
        switch lease {
        case .some(let lease): lease.queuedBytes
        case .none: 0
        }
    }

    /// The upstream must take some bytes from now on.
    func restartProgress() {
        if let stream { return stream.restartProgress() }
        connection?.stream.restartProgress()
    }

    /// The upstream has taken some bytes since the last check.
    func hasProgress() -> Bool { stream?.hasProgress() ?? connection?.stream.checkProgress().isProgress ?? false }

    /// The request has ended.
    mutating func endRequest() {
        token = nil
        generation = nil
    }

    // MARK: Head

    /// The head is about to be sent.
    mutating func recordHead(hasToken: Bool) {
        hasSentToken = hasToken
        sentAt = .never
    }

    /// The head was sent or queued.
    ///
    /// - Parameters:
    ///   - start: `ByteStream.taken` before it.
    ///   - isQueued: the upstream has not taken all of it.
    mutating func recordSentHead(from start: UInt64, isQueued: Bool) { queuedHeadStart = isQueued ? start : nil }

    /// Part of the head is queued.
    var isHeadQueued: Bool { queuedHeadStart != nil }

    /// Part of the head is queued, and the upstream has taken no byte of it.
    var isHeadUntouched: Bool { queuedHeadStart != nil && queuedHeadStart == connection?.stream.taken }

    /// Queued bytes were sent.
    ///
    /// - Returns: whether the last byte of the head was among them.
    mutating func recordFlush() -> Bool {
        guard isHeadQueued, let connection, connection.stream.isFlushed else { return false }
        queuedHeadStart = nil
        return true
    }

    /// The head is not sent on.
    mutating func giveUpHead() { queuedHeadStart = nil }

    /// The last byte of the request was sent.
    mutating func recordEnd(at now: Instant) { sentAt = now }

    mutating func expectContinue(_ isDue: Bool) { isContinueDue = isDue }
}
