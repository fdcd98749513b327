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
}
