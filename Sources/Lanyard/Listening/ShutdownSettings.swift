/// `shutdown:` of the configuration (architecture.md 7.7).
package struct ShutdownSettings: Equatable, Sendable {
    /// Readiness is off and everything is served, before the listeners close.
    package var drainMin = Duration.zero
    /// Requests under way have this long to end.
    package var drainMax = Duration.seconds(30)
    package var exitZeroOnSIGTERM = false
    package init() {}
}
