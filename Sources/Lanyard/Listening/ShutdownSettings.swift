/// `shutdown:` of the configuration (architecture.md 7.7).
package struct ShutdownSettings: Equatable, Sendable {
    /// How long requests are still accepted while readiness is off.
    package var drainMin = Duration.zero
    /// How long requests under way may take to end.
    package var drainMax = Duration.seconds(30)
    package var exitZeroOnSIGTERM = false
    package init() {}
}
