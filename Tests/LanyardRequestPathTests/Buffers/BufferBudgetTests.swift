import LanyardFoundations
import TestSupport
import Testing

@testable import LanyardRequestPath

@Suite struct BufferBudgetTests {
    @Test(
        "reads shrink from a quarter of the memory on, so that clients that stop reading leave room for new requests",
        arguments: [
            (0, 65_536), (250_000, 65_536), (250_001, 16_000), (500_000, 16_000), (500_001, 8_000), (750_000, 8_000),
            (750_001, 4_000), (999_999, 4_000), (1_000_000, 0),
        ])
    func readSizes(_ held: Int, _ readSize: Int) {
        let budget = BufferBudget(1_000_000)
        budget.add(held)
        #expect(budget.readSize(upTo: 65_536) == readSize)
        budget.release(held)
        #expect(budget.count == 0)
    }

    @Test("parts of TLS records alone neither refuse requests nor stop reading; surplus ones are told of once")
    func partialRecords() {
        let budget = BufferBudget(1_600)
        let told = Guarded(0)
        budget.whenRequestsRefused { told.withLock { $0 += 1 } }
        let counted = (0..<100).map { _ in budget.addPartialRecord(100) }
        #expect(counted.count { $0 } == 13 && budget.count == 1_300)
        #expect(
            !budget.isUnder(.requestsRefused) && budget.readSize(upTo: 65_536) == 4_000 && told.withLock { $0 } == 1)
        // At three quarters the next surplus is told of again.
        budget.releasePartialRecord(100)
        #expect(budget.addPartialRecord(100) && !budget.addPartialRecord(100))
        #expect(told.withLock { $0 } == 2)
        for _ in 0..<13 { budget.releasePartialRecord(100) }
        #expect(budget.count == 0)
    }
}
