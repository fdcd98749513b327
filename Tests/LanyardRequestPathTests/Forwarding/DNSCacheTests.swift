import Testing

@testable import LanyardFoundations
@testable import LanyardRequestPath

@Suite struct DNSCacheTests {
    private static let start = Instant(nanoseconds: 1_000_000_000_000)
    private let one = SocketAddress(host: "127.0.0.2", port: 80)!
    private let two = SocketAddress(host: "127.0.0.3", port: 80)!
    private var cache = DNSCache(refresh: .seconds(40))

    private func at(_ seconds: Int) -> Instant { Self.start + .seconds(seconds) }

    /// A book with an answer that was asked for at `start`.
    private func cacheWithAddress() -> DNSCache {
        var cache = cache
        #expect(cache.requireAddresses(at: at(0)) == .wait(startsLookup: true))
        let changed = cache.handleLookup([one], startedAt: at(0))
        #expect(changed)
        return cache
    }

    @Test("the first who want a name wait for one question; a failure lets the next ask again")
    func first() {
        var cache = cache
        #expect(cache.requireAddresses(at: at(0)) == .wait(startsLookup: true))
        #expect(cache.requireAddresses(at: at(1)) == .wait(startsLookup: false))
        cache.handleLookupFailure(at: at(2))
        #expect(cache.requireAddresses(at: at(2)) == .wait(startsLookup: true))
    }

    @Test("an answer in use is asked anew after three quarters of its time, once, and serves until then")
    func askedBefore() {
        var cache = cacheWithAddress()
        #expect(cache.requireAddresses(at: at(29)) == .use([one], startsLookup: false))
        #expect(cache.refreshAt == at(30))
        #expect(cache.requireAddresses(at: at(30)) == .use([one], startsLookup: true))
        #expect(cache.requireAddresses(at: at(31)) == .use([one], startsLookup: false))
        let beginRefreshIfDue = cache.beginRefreshIfDue(at: at(31))
        #expect(!beginRefreshIfDue)
        let changed = cache.handleLookup([two], startedAt: at(30))
        #expect(changed)
        #expect(cache.requireAddresses(at: at(59)) == .use([two], startsLookup: false))
        #expect(cache.refreshAt == at(60))
    }

    @Test("open connections have the name asked anew, too")
    func open() {
        var cache = cacheWithAddress()
        let startsLookup = [
            cache.beginRefreshIfDue(at: at(29)), cache.beginRefreshIfDue(at: at(30)),
            cache.beginRefreshIfDue(at: at(30)),
        ]
        #expect(startsLookup == [false, true, false])
    }

    @Test("an answer that no request used for its time is waited for")
    func stale() {
        var cache = cacheWithAddress()
        #expect(cache.requireAddresses(at: at(40)) == .wait(startsLookup: true))
        #expect(cache.requireAddresses(at: at(40)) == .wait(startsLookup: false))
    }

    @Test("while questions fail the old answer serves, and no request waits for each of them")
    func failing() {
        var cache = cacheWithAddress()
        #expect(cache.requireAddresses(at: at(50)) == .wait(startsLookup: true))
        cache.handleLookupFailure(at: at(52))
        #expect(cache.requireAddresses(at: at(52)) == .use([one], startsLookup: false))
        #expect(cache.refreshAt == at(57))
        // After the pause one asks, and the others join it.
        #expect(cache.requireAddresses(at: at(57)) == .wait(startsLookup: true))
        #expect(cache.requireAddresses(at: at(57)) == .wait(startsLookup: false))
    }

    @Test("a late answer is not waited for by the next: the old one serves")
    func lookupTimedOut() {
        var cache = cacheWithAddress()
        #expect(cache.requireAddresses(at: at(50)) == .wait(startsLookup: true))
        let old = cache.handleLookupTimeout(at: at(51))
        #expect(old == [one])
        #expect(cache.requireAddresses(at: at(51)) == .use([one], startsLookup: false))
        let changed = cache.handleLookup([one, two], startedAt: at(50))
        #expect(changed)
        #expect(cache.requireAddresses(at: at(52)) == .use([one, two], startsLookup: false))
    }

    @Test("without an old answer a late one leaves nothing, and pauses nothing")
    func lateFirst() {
        var cache = cache
        #expect(cache.requireAddresses(at: at(0)) == .wait(startsLookup: true))
        let old = cache.handleLookupTimeout(at: at(5))
        #expect(old.isEmpty)
        cache.handleLookupFailure(at: at(6))
        #expect(cache.requireAddresses(at: at(6)) == .wait(startsLookup: true))
    }

    @Test("another order of the same addresses is no change")
    func order() {
        var cache = cacheWithAddress()
        let changes = [
            cache.handleLookup([one, two], startedAt: at(1)), cache.handleLookup([two, one], startedAt: at(2)),
            cache.handleLookup([two], startedAt: at(3)),
        ]
        #expect(changes == [true, false, true])
    }
}
