import Glibc

/// How much of its full size a `Long` suite runs: `LANYARD_TEST_SIZE`, from 0 to 1. Without it all.
package enum LongSize {
    private static let share: Double = {
        guard let text = getenv("LANYARD_TEST_SIZE").map({ String(cString: $0) }) else { return 1 }
        guard let share = Double(text), (0...1).contains(share) else {
            fatalError("LANYARD_TEST_SIZE is no number from 0 to 1: \(text)")
        }
        return share
    }()

    /// - Parameters:
    ///   - full: a number of rounds, or of seconds.
    ///   - least: below it the suite proves nothing.
    package static func of(_ full: Int, least: Int) -> Int { max(least, Int(Double(full) * share)) }
}
