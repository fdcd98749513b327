import Testing

@testable import LanyardRequestPath

@Suite struct SharedLimitTests {
    @Test("as many are taken as the limit says and no more, until one is given back")
    func bound() {
        let limit = SharedLimit(2)
        var first = limit.acquire()
        let second = limit.acquire()
        #expect(Self.isFull(limit))
        #expect(limit.count == 2 && !limit.isExceeded)
        first = nil
        #expect(limit.count == 1)
        first = limit.acquire()
        #expect(limit.count == 2 && Self.isFull(limit))
        limit.setMax(1)
        #expect(limit.isExceeded)
        _ = consume first
        _ = consume second
    }

    @Test("a permit that moves is given back once, when its last owner goes")
    func moved() {
        let limit = SharedLimit(2)
        var former = limit.acquire()
        let next = former.take()
        former = nil
        #expect(limit.count == 1)
        _ = consume next
        #expect(limit.count == 0)
    }

    private static func isFull(_ limit: SharedLimit) -> Bool {
        let permit = limit.acquire()
        return permit == nil
    }
}
