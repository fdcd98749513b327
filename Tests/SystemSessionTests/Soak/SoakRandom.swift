import LanyardFoundations
import TestSupport

@testable import SystemTestSupport

/// Random choices that several threads share, the same sequence for a seed.
final class SoakRandom: Sendable {
    private let generator: Guarded<SeededGenerator>

    init(_ seed: UInt64) { generator = Guarded(SeededGenerator(seed)) }

    func number(_ range: ClosedRange<Int>) -> Int { generator.withLock { Int.random(in: range, using: &$0) } }

    /// True so often out of a hundred times.
    func chance(_ percent: Int) -> Bool { number(1...100) <= percent }

    func pick<Element>(_ elements: [Element]) -> Element { elements[number(0...elements.count - 1)] }

    func milliseconds(_ range: ClosedRange<Int>) -> Duration { .milliseconds(number(range)) }
}
