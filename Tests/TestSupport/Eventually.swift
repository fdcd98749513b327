import Glibc

/// Checks `condition` every 10 ms until it is true.
///
/// - Throws: `Patience.failure` with `what` when the test's patience is exhausted, or the error of `condition`.
package func eventually(_ what: @autoclosure () -> String, _ condition: () async throws -> Bool) async throws {
    let patience = Patience()
    while true {
        // A condition that was asked before the end counts, however late its result is here.
        let isLast = patience.isExhausted
        if try await condition() { return }
        guard !isLast else { throw patience.failure(what()) }
        try await Task.sleep(for: .milliseconds(10))
    }
}

/// The same for a function without suspension points. It checks every millisecond.
///
/// - Throws: `Patience.failure` with `what` when the test's patience is exhausted, or the error of `condition`.
package func blockUntil(_ what: @autoclosure () -> String, _ condition: () throws -> Bool) throws {
    let patience = Patience()
    while true {
        let isLast = patience.isExhausted
        if try condition() { return }
        guard !isLast else { throw patience.failure(what()) }
        usleep(1_000)
    }
}
