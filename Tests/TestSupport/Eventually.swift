import Glibc

/// Checks `condition` every 10 ms until it is true. Throws an error with `what` when `limit` has passed.
///
/// Under a sanitizer the limit is multiplied by `Sanitizer.stretch`.
///
/// - Throws: `TestFailure` when the time is over, or the error of `condition`.
package func eventually(
    _ what: String, within limit: Duration = .seconds(10), _ condition: () async throws -> Bool
) async throws {
    let clock = ContinuousClock()
    let end = clock.now + limit * Sanitizer.stretch
    while true {
        // What began before the end may have had an early answer, and a late turn to say so.
        let start = clock.now
        if try await condition() { return }
        guard start < end else { throw TestFailure("not within \(limit): \(what)") }
        try await Task.sleep(for: .milliseconds(10))
    }
}

/// The same on a thread that may block, such as those of `offPool`. It checks every millisecond.
///
/// Under a sanitizer the limit is multiplied by `Sanitizer.stretch`.
///
/// - Throws: `TestFailure` when the time is over, or the error of `condition`.
package func blockUntil(_ what: String, within limit: Duration = .seconds(10), _ condition: () throws -> Bool) throws {
    let end = ContinuousClock.now + limit * Sanitizer.stretch
    while true {
        let start = ContinuousClock.now
        if try condition() { return }
        guard start < end else { throw TestFailure("not within \(limit): \(what)") }
        usleep(1_000)
    }
}
