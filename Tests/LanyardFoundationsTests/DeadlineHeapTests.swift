import TestSupport
import Testing

@testable import LanyardFoundations

@Suite struct DeadlineHeapTests {
    @Test("any sequence of sets, moves, drops and waits tells what a sorted list would")
    func model() {
        for seed in 0..<20 { compare(seed: UInt64(seed)) }
    }

    /// The same random operations on the heap and on a plain array of instants.
    private func compare(seed: UInt64) {
        var random = SeededGenerator(seed)
        let owner = Watcher()
        let deadlines = (0..<40).map { _ in Deadline(of: owner) }
        var model = [Instant](repeating: .never, count: deadlines.count)
        var heap = DeadlineHeap()
        var now: Int64 = 0
        for _ in 0..<2_000 {
            let index = Int.random(in: 0..<deadlines.count, using: &random)
            switch Int.random(in: 0..<10, using: &random) {
            case 0...5:
                let instant = Instant(nanoseconds: now + Int64.random(in: -5...100, using: &random))
                heap.set(deadlines[index], at: instant)
                model[index] = instant
            case 6:
                heap.set(deadlines[index], at: .never)
                model[index] = .never
            case 7:
                heap.remove(deadlines[index])
                model[index] = .never
            default:
                now += Int64.random(in: 0...40, using: &random)
                let due = Set(model.indices.filter { model[$0].nanoseconds <= now })
                var told: Set<Int> = []
                while let deadline = heap.next(at: Instant(nanoseconds: now)) {
                    let place = deadlines.firstIndex { $0 === deadline }!
                    #expect(told.insert(place).inserted)
                    #expect(deadline.instant == .never)
                    model[place] = .never
                }
                #expect(told == due)
            }
            let next = model.min()!
            // The heap may look too early, never too late.
            let (earliest, count) = (heap.earliest, heap.count)
            #expect(earliest <= next)
            #expect(count <= deadlines.count)
        }
    }

    @Test("deadlines are told in the order of their instants")
    func order() {
        let owner = Watcher()
        var heap = DeadlineHeap()
        let deadlines = (0..<50).map { _ in Deadline(of: owner) }
        for (index, deadline) in deadlines.enumerated() {
            heap.set(deadline, at: Instant(nanoseconds: Int64((index * 37) % 50)))
        }
        var told: [Int] = []
        while let deadline = heap.next(at: Instant(nanoseconds: 100)) {
            told.append(deadlines.firstIndex { $0 === deadline }! * 37 % 50)
        }
        #expect(told == Array(0..<50))
    }

    @Test("moving a deadline later costs no place and keeps one")
    func lazy() {
        let deadline = Deadline(of: Watcher())
        var heap = DeadlineHeap()
        for instant in 1...1_000 { heap.set(deadline, at: Instant(nanoseconds: Int64(instant))) }
        var seen = [(heap.count, heap.earliest.nanoseconds)]
        let early = heap.next(at: Instant(nanoseconds: 999))
        #expect(early === nil)
        seen.append((heap.count, heap.earliest.nanoseconds))
        let due = heap.next(at: Instant(nanoseconds: 1_000))
        #expect(due === deadline)
        seen.append((heap.count, heap.earliest.nanoseconds))
        #expect(seen.map(\.0) == [1, 1, 0])
        #expect(seen.map(\.1) == [1, 1_000, .max])
    }
}
