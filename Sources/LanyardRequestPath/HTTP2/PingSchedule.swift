import LanyardFoundations

/// Whether the peer of a connection is still there: when it is asked by a PING, and when it is given up (H31, H32). Does no I/O.
struct PingSchedule {
    /// How long the peer may be silent while streams are open, and how long it may leave a PING without a reply.
    struct Limits: Equatable {
        var after = Duration.seconds(15)
        var timeout = Duration.seconds(10)
    }

    enum Action: Equatable {
        /// Ask again then.
        case wait(until: Instant)
        case ping
        case close
    }

    /// Servers count PINGs of clients that send nothing else: behind the first one of a silence none for so long.
    private static let pauseInSilence = Duration.seconds(300)

    private let limits: Limits
    /// The latest frame.
    private var heardAt: Instant
    /// A PING without a reply; nil: there is none.
    private var askedAt: Instant?
    /// No PING before.
    private var nextPingAt: Instant

    init(_ limits: Limits, at now: Instant) {
        self.limits = limits
        (heardAt, nextPingAt) = (now, now)
    }

    /// Nothing has come for so long.
    func hasHeardNothing(for duration: Duration, at now: Instant) -> Bool { now >= heardAt + duration }

    /// Frames have come.
    ///
    /// - Parameter hasMessages: a head or a body is among them, in one direction or the other.
    mutating func recordFrames(hasMessages: Bool, at now: Instant) {
        (heardAt, askedAt) = (now, nil)
        if hasMessages { nextPingAt = now }
    }

    /// A request is sent.
    ///
    /// - Parameter isFirst: no stream was open before: the silence begins now.
    mutating func recordRequest(isFirst: Bool, at now: Instant) {
        if isFirst { (heardAt, askedAt) = (max(heardAt, now), nil) }
        nextPingAt = min(nextPingAt, now)
    }

    /// A PING was sent for another reason.
    mutating func recordPing(at now: Instant) {
        askedAt = askedAt ?? now
        nextPingAt = now + Self.pauseInSilence
    }

    /// While streams are open.
    mutating func check(at now: Instant) -> Action {
        if let askedAt {
            guard now < askedAt + limits.timeout else { return .close }
            return .wait(until: askedAt + limits.timeout)
        }
        let pingAt = max(heardAt + limits.after, nextPingAt)
        guard now >= pingAt else { return .wait(until: pingAt) }
        recordPing(at: now)
        return .ping
    }
}
