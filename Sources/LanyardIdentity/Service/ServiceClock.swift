import LanyardFoundations

/// The identity service's wall clock, as the `Date` of its latest successful response has shown it (refresh.md 13).
struct ServiceClock {
    private var latest: (date: WallTime, at: Instant)?

    /// Ignores errors, which a gateway with another clock may have sent.
    mutating func learn(from outcome: Result<CurlResponse, CurlError>) {
        guard case .success(let response) = outcome, 200..<300 ~= response.status, let date = response.serverDate
        else { return }
        // `Date` has whole seconds.
        latest = (date + .milliseconds(500), .now)
    }

    /// The time of the service; this machine's before the first response with a `Date`.
    func time() -> WallTime { latest.map { $0.date + (Instant.now - $0.at) } ?? .now }
}
