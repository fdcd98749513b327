/// `refresh:` of the configuration (refresh.md 2, refresh.md 3, refresh.md 4, refresh.md 5).
package struct RefreshSettings: Equatable, Sendable {
    /// The scheduled refresh lies uniformly in this part of the lifetime.
    package var at: ClosedRange<Double> = 0.65...0.75
    /// The mandatory zone is the last min(this, lifetime / 4).
    package var mandatory = Duration.seconds(60)
    /// A request waits at most this long for a token.
    package var waitMax = Duration.seconds(5)
    /// Between two forced refreshes of one session.
    package var cooldown = Duration.seconds(10)
    /// Forced refreshes of one session in an hour.
    package var perHourMax = 30
    package init() {}
}
