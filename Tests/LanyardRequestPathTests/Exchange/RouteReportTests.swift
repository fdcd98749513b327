import LanyardFoundations
import Testing

@testable import LanyardRequestPath

/// What the status says of a route.
@Suite struct RouteReportTests {
    @Test("each request is counted once: by the class of its status and by who has responded")
    func counts() {
        let counters = RouteCounters("all")
        let (start, end) = (Instant(nanoseconds: 1), Instant(nanoseconds: 7))
        #expect(counters.latestResponseAt == .past)
        for (status, origin) in [
            (200, RouteCounters.Origin.upstream), (503, .upstream), (502, .lanyard), (403, .lanyard),
        ] {
            counters.countRequest(status: status, origin: origin, from: start, to: end)
        }
        counters.countRequest(status: nil, origin: .lanyard, from: start, to: end)
        counters.countUnauthorized()
        #expect(counters.counts == RouteCounts(requests: 5, serverErrors: 2, refusals: 1, unauthorized: 1))
        #expect(counters.latestResponseAt == end)
    }

    @Test("server errors for want of a token are counted besides")
    func withoutToken() {
        let counters = RouteCounters("a")
        for problem in [
            Problem.noActiveUser, .loginRequired(user: "alice", status: 503),
            .credentialRefused(user: "alice", because: "x"),
            .identityUnreachable(user: "alice", retryAfter: 1), .upstreamTerminated, .buffersFull, .shuttingDown,
        ] {
            counters.recordFailure(problem, at: .now)
        }
        #expect(counters.counts.withoutToken == 4)
    }

    @Test("the growth in a time; counters that a reload has replaced begin at 0 again")
    func growth() {
        let now = RouteCounts(requests: 9, serverErrors: 4, refusals: 2, unauthorized: 1)
        let earlier = RouteCounts(requests: 5, serverErrors: 1, refusals: 2)
        #expect(now.growth(since: earlier) == RouteCounts(requests: 4, serverErrors: 3, unauthorized: 1))
        #expect(earlier.growth(since: now) == earlier)
    }

    @Test("failures by kind: the latest of each, at most one in 100 ms")
    func failures() {
        let counters = RouteCounters("one")
        var failures: RouteFailures { counters.failures }
        func at(_ milliseconds: Int64) -> Instant { Instant(nanoseconds: milliseconds * 1_000_000) }
        counters.recordFailure(.loginRequired(user: "alice", status: 503), at: at(1))
        #expect(
            failures.latest.token?.at == at(1) && failures.latest.upstream == nil && failures.latest.overload == nil)
        counters.recordFailure(.upstreamTerminated, at: at(1))
        counters.recordFailure(.upstreamResponseTimeout, at: at(100))
        counters.recordFailure(.buffersFull, at: at(100))
        #expect(failures.latest.upstream == RouteFailure(at: at(1), message: Problem.upstreamTerminated.detail))
        #expect(failures.latest.overload == RouteFailure(at: at(100), message: Problem.buffersFull.detail))
        counters.recordFailure(.upstreamResponseTimeout, at: at(101))
        #expect(failures.latest.upstream == RouteFailure(at: at(101), message: Problem.upstreamResponseTimeout.detail))
    }
}
