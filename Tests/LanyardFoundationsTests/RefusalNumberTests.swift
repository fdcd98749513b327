import LanyardFoundations
import Testing

@Suite struct RefusalNumberTests {
    @Test("who has heard of a refusal has heard of all before it, and of none after it")
    func order() {
        let first = RefusalNumber.ofNewCache().next
        let second = first.next
        var heard = HeardRefusals.none
        #expect(!heard.contains(first))
        heard.record(second)
        #expect(heard.contains(first) && heard.contains(second) && !heard.contains(second.next))
        heard.record(first)
        #expect(heard.contains(second), "an earlier one that comes later takes nothing back")
    }

    @Test("the refusals of one cache confirm none of another one")
    func caches() {
        let (one, other) = (RefusalNumber.ofNewCache().next, RefusalNumber.ofNewCache().next)
        var heard = HeardRefusals.none
        heard.record(one.next)
        #expect(one != other && heard.contains(one) && !heard.contains(other))
    }
}
