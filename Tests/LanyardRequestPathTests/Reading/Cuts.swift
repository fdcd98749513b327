import TestSupport

/// Ways to hand some bytes to a reader: whole, one by one, at random places. A reader's result must not depend on them.
enum Cuts {
    /// Ends of the pieces, the last one being `count`.
    static func of(_ count: Int) -> [[Int]] {
        var random = SeededGenerator(UInt64(count) &+ 4711)
        var ways = [[count], Array(1...max(count, 1)).filter { $0 <= count }]
        for _ in 0..<8 {
            let pieces = Int.random(in: 1...6, using: &random)
            let ends = (0..<pieces).map { _ in Int.random(in: 0...count, using: &random) }
            ways.append(ends.sorted() + [count])
        }
        return ways
    }
}
