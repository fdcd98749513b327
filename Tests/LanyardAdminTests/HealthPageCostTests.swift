import LanyardFoundations
import TestSupport
import Testing

@testable import LanyardAdmin

@Suite("Reports that take long") struct HealthPageCostTests {
    private final class Time: Sendable {
        private let state = Guarded((now: Instant.now, reports: 0))

        var now: Instant { state.withLock(\.now) }
        var reports: Int { state.withLock(\.reports) }

        func pass(_ duration: Duration) { state.withLock { $0.now = $0.now + duration } }

        func noteReport() { state.withLock { $0.reports += 1 } }
    }

    private let time = Time()

    /// - Parameter cost: what a snapshot takes.
    private func pages(cost: Duration) -> HealthPages {
        HealthPages(
            .init(
                snapshot: { [time] in
                    time.pass(cost)
                    time.noteReport()
                    return HealthSnapshot(users: [], activeUser: nil, followsActiveUser: false, pinnedUsers: [])
                }, samples: { [] }, controlPlane: { _ in }), version: "1", commit: "abc",
            time: { [time] in time.now })
    }

    @Test("one that took 10 ms serves all pages for 30 ms, and is made anew then")
    func shared() {
        let pages = pages(cost: .milliseconds(10))
        for path in ["/readyz", "/startupz", "/readyz", "/readyz/nobody"] { _ = pages.response(to: path) }
        #expect(time.reports == 1)
        time.pass(.milliseconds(30) - .nanoseconds(1))
        #expect(pages.response(to: "/readyz")?.status == 200)
        #expect(time.reports == 1)
        time.pass(.nanoseconds(1))
        _ = pages.response(to: "/readyz")
        #expect(time.reports == 2)
    }

    @Test("one that took no time is made for each request")
    func fresh() {
        let pages = pages(cost: .zero)
        for _ in 0..<3 { _ = pages.response(to: "/readyz") }
        #expect(time.reports == 3)
    }
}
