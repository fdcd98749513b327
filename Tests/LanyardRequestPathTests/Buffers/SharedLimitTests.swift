import Testing

@testable import LanyardRequestPath

@Suite struct SharedLimitTests {
    @Test("as many are taken as the limit says and no more, until one is given back")
    func bound() {
        let limit = SharedLimit(2)
        #expect((0..<3).map { _ in limit.acquire() } == [true, true, false])
        #expect(limit.count == 2 && !limit.isExceeded)
        #expect(limit.release() == 1)
        #expect((0..<2).map { _ in limit.acquire() } == [true, false])
        limit.setMax(1)
        #expect(limit.isExceeded)
    }
}
