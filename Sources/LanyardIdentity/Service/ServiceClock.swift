import LanyardFoundations

/// The identity service's wall clock, as the `Date` of its latest successful response has shown it (refresh.md 13).
struct ServiceClock: Equatable {
    /// Servers allow for less than this between two clocks, and for more than `Date` is rounded by.
    private static let differenceMax = Duration.seconds(30)

    private struct Reading: Equatable {
        let date: WallTime
        let at: Instant
    }

    private var latest: Reading?

    /// Ignores errors, which a gateway with another clock may have sent.
    mutating func update(from outcome: Result<CurlResponse, CurlError>) {
        guard case .success(let response) = outcome, 200..<300 ~= response.status, let date = response.serverDate
        else { return }
        // `Date` has whole seconds.
        latest = Reading(date: date + .milliseconds(500), at: .now)
    }

    /// What a service's refusal of something that Lanyard has signed says of its clock: the signature's times may be why.
    ///
    /// - Returns: the clock by the response's `Date`; nil: it has none, or is as far as `differenceMax` from this one at most.
    func corrected(by outcome: Result<CurlResponse, CurlError>) -> ServiceClock? {
        guard case .success(let response) = outcome, let date = response.serverDate else { return nil }
        let difference = date - time()
        guard max(difference, .zero - difference) > Self.differenceMax else { return nil }
        var corrected = self
        corrected.latest = Reading(date: date + .milliseconds(500), at: .now)
        return corrected
    }

    /// The time of the service; this machine's before the first response with a `Date`.
    func time() -> WallTime { latest.map { $0.date + (Instant.now - $0.at) } ?? .now }
}
