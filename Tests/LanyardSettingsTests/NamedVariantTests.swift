import LanyardSettings
import Testing

@Suite struct NamedVariantTests {
    @Test("a token that a broker names is not said to be a route's")
    func owner() {
        #expect(NamedVariant.owner("orders") == "route orders")
        #expect(NamedVariant.owner("brokers[0].callers[2].1") == "brokers[0].callers[2].1")
    }
}
