import LanyardFoundations
import LanyardSettings

/// How many further requests one connection of HTTP/2 takes. Does no I/O.
struct StreamPlaces {
    /// Requests so far.
    private(set) var requests = 0
    private let requestsMax: Int
    /// As many windows of streams are in the connection's: more could stop each other (H19).
    private let windowsMax: Int
    /// No request begins later.
    let endsAt: Instant
    /// Streams at once: the upstream has refused one while so many others were open. It has announced more.
    private var learnedMax = Int.max
    /// Places of exchanges that have not sent their head yet.
    var promised = 0

    /// - Parameter now: the connection is new.
    init(_ settings: HTTP2Settings, at now: Instant) {
        requestsMax = settings.requestsMax ?? .max
        let window = min(max(settings.connectionWindow, settings.streamsMax * settings.streamWindow), Int(Int32.max))
        windowsMax = window / settings.streamWindow
        endsAt = settings.maxAge.map { now + $0 } ?? .never
    }

    /// The limit of requests is reached.
    var areUsedUp: Bool { requests >= requestsMax }

    /// - Parameters:
    ///   - open: streams.
    ///   - announced: streams that the upstream allows at once.
    func hasFree(besides open: Int, announced: Int, at now: Instant) -> Bool {
        !areUsedUp && now < endsAt && open + promised < min(announced, learnedMax, windowsMax)
    }

    /// An exchange gets a place.
    mutating func promise() {
        promised += 1
        requests += 1
    }

    /// The upstream has refused a stream beside so many others. It takes one more for each that ends in order.
    mutating func noteRefusal(others: Int) { learnedMax = others }

    /// A stream has ended.
    mutating func noteEnd() { if learnedMax < .max { learnedMax += 1 } }
}
