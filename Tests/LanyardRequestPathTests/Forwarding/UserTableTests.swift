import LanyardFoundations
import TestSupport
import Testing

@testable import LanyardRequestPath

@Suite struct UserTableTests {
    @Test("each user has a value of its own, however far apart the numbers are; others have none")
    func values() {
        var random = SeededGenerator(7)
        var table = UserTable(empty: 0)
        var expected: [Int: Int] = [:]
        #expect(table.isEmpty && table.place(of: UserIndex(0)) == nil)
        for round in 1...2_000 {
            let user = UserIndex(Int.random(in: 0..<5_000, using: &random) * (round.isMultiple(of: 3) ? 64 : 1))
            let place = table.placeMaking(for: user)
            #expect(table[place] == expected[user.number, default: 0])
            table[place] += round
            expected[user.number, default: 0] += round
        }
        #expect(!table.isEmpty)
        for number in 0..<5_000 * 64 {
            #expect(table.place(of: UserIndex(number)).map { table[$0] } == expected[number])
        }
    }

    @Test("a user keeps its place while no other is added, and its epochs share it")
    func epochs() {
        var table = UserTable<[Int]>(empty: [])
        let place = table.placeMaking(for: UserIndex(3))
        table[place].append(1)
        #expect(table.place(of: UserIndex(3, epoch: 1)) == place && table[place] == [1])
        #expect(table.placeMaking(for: UserIndex(3)) == place)
    }
}
