import Testing

@testable import Lanyard

@Suite struct NameBookTests {
    private static let start = Instant(nanoseconds: 1_000_000_000_000)
    private let one = SocketAddress(host: "127.0.0.2", port: 80)!
    private let two = SocketAddress(host: "127.0.0.3", port: 80)!
    private var book = NameBook(refresh: .seconds(40))

    private func at(_ seconds: Int) -> Instant { Self.start + .seconds(seconds) }

    /// A book with an answer that was asked for at `start`.
    private func answered() -> NameBook {
        var book = book
        #expect(book.wanted(at: at(0)) == .wait(asks: true))
        let changed = book.answered([one], askedAt: at(0))
        #expect(changed)
        return book
    }

    @Test("the first who want a name wait for one question; a failure lets the next ask again")
    func first() {
        var book = book
        #expect(book.wanted(at: at(0)) == .wait(asks: true))
        #expect(book.wanted(at: at(1)) == .wait(asks: false))
        book.failed(at: at(2))
        #expect(book.wanted(at: at(2)) == .wait(asks: true))
    }

    @Test("an answer in use is asked anew after three quarters of its time, once, and serves meanwhile")
    func askedBefore() {
        var book = answered()
        #expect(book.wanted(at: at(29)) == .use([one], asks: false))
        #expect(book.askAt == at(30))
        #expect(book.wanted(at: at(30)) == .use([one], asks: true))
        #expect(book.wanted(at: at(31)) == .use([one], asks: false))
        let inUse = book.inUse(at: at(31))
        #expect(!inUse)
        let changed = book.answered([two], askedAt: at(30))
        #expect(changed)
        #expect(book.wanted(at: at(59)) == .use([two], asks: false))
        #expect(book.askAt == at(60))
    }

    @Test("open connections have the name asked anew, too")
    func open() {
        var book = answered()
        let asks = [book.inUse(at: at(29)), book.inUse(at: at(30)), book.inUse(at: at(30))]
        #expect(asks == [false, true, false])
    }

    @Test("an answer that nobody used for its time is waited for")
    func stale() {
        var book = answered()
        #expect(book.wanted(at: at(40)) == .wait(asks: true))
        #expect(book.wanted(at: at(40)) == .wait(asks: false))
    }

    @Test("while questions fail the old answer serves, and nobody waits for each of them")
    func failing() {
        var book = answered()
        #expect(book.wanted(at: at(50)) == .wait(asks: true))
        book.failed(at: at(52))
        #expect(book.wanted(at: at(52)) == .use([one], asks: false))
        #expect(book.askAt == at(57))
        // After the pause one asks, and the others join it.
        #expect(book.wanted(at: at(57)) == .wait(asks: true))
        #expect(book.wanted(at: at(57)) == .wait(asks: false))
    }

    @Test("a late answer is not waited for by the next: the old one serves")
    func late() {
        var book = answered()
        #expect(book.wanted(at: at(50)) == .wait(asks: true))
        let old = book.late(at: at(51))
        #expect(old == [one])
        #expect(book.wanted(at: at(51)) == .use([one], asks: false))
        let changed = book.answered([one, two], askedAt: at(50))
        #expect(changed)
        #expect(book.wanted(at: at(52)) == .use([one, two], asks: false))
    }

    @Test("without an old answer a late one leaves nothing, and pauses nothing")
    func lateFirst() {
        var book = book
        #expect(book.wanted(at: at(0)) == .wait(asks: true))
        let old = book.late(at: at(5))
        #expect(old.isEmpty)
        book.failed(at: at(6))
        #expect(book.wanted(at: at(6)) == .wait(asks: true))
    }

    @Test("another order of the same addresses is no change")
    func order() {
        var book = answered()
        let changes = [
            book.answered([one, two], askedAt: at(1)), book.answered([two, one], askedAt: at(2)),
            book.answered([two], askedAt: at(3)),
        ]
        #expect(changes == [true, false, true])
    }
}
