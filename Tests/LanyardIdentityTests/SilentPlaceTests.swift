import IdentityTestSupport
import LanyardFoundations
import TestSupport
import Testing

@testable import LanyardIdentity
@testable import LanyardSessionInterface
@testable import LanyardSettings

/// A request for the metadata or the location that has no response gets another one beside it (refresh.md 17).
@Suite struct SilentPlaceTests {
    /// Which requests for the place have no response yet, and how many there were.
    private final class Place: Sendable {
        private let asked = Guarded(0)
        let silent: Range<Int>
        let release = Milestone()

        init(silent: Range<Int>) { self.silent = silent }

        var count: Int { asked.withLock { $0 } }

        func response(_ response: RawResponse) -> RawResponse {
            let number = asked.withLock { asked in
                defer { asked += 1 }
                return asked
            }
            return silent.contains(number) ? response.after(release) : response
        }
    }

    /// A service of either kind whose calls all want another request for its place after two seconds.
    private final class Bench: Sendable {
        let place: Place
        let tokens = Guarded(0)
        let failures = Guarded<[String]>([])
        private let oauth: OAuthBench?
        private let appServices: IdentityBench?

        init(isOAuth: Bool, silent: Range<Int>) throws {
            let place = Place(silent: silent)
            let own = Guarded("")
            self.place = place
            oauth =
                !isOAuth
                ? nil
                : try OAuthBench(script: { request in
                    request.target.hasPrefix("/.well-known")
                        ? place.response(OAuthBench.metadata(own.withLock { $0 })) : nil
                })
            appServices =
                isOAuth
                ? nil
                : try IdentityBench(script: { _, path in
                    path.hasSuffix("/location") ? place.response(IdentityBench.location("")) : nil
                })
            own.withLock { [oauth] in $0 = oauth?.issuer ?? "" }
            loop.freezeTime()
        }

        var loop: EventLoop { oauth?.loop ?? appServices!.loop }
        var timeToDeadline: Duration? { loop.perform { [loop] in loop.timeToDeadline } }
        var calls: Int { (oauth?.server ?? appServices!.server).requests.count { $0.method == "POST" } }

        /// A refresh, whose refresh token may work only once: the request for the place does not hold it.
        func refresh(_ progress: CallProgress = CallProgress(.refresh, repeatsPlaceAfter: .seconds(2))) {
            let identity: any IdentityService = oauth?.identity ?? appServices!.identity
            identity.refresh(Tokens.secret(Tokens.refresh), progress: progress) { [self] result in
                switch result {
                case .success: tokens.withLock { $0 += 1 }
                case .failure(let error): failures.withLock { $0.append(error.message) }
                }
            }
            loop.pass(.zero)
        }
    }

    @Test(
        "two seconds after it, one for all calls, on another connection: its response serves them",
        arguments: [true, false])
    func repeated(isOAuth: Bool) async throws {
        let bench = try Bench(isOAuth: isOAuth, silent: 0..<1)
        defer { bench.place.release.set() }
        for _ in 0..<3 { bench.refresh() }
        try await eventually("the first request") { bench.place.count == 1 }
        bench.loop.pass(.seconds(2) - .nanoseconds(1))
        #expect(bench.place.count == 1)
        #expect(bench.timeToDeadline == .nanoseconds(1), "the second request is due")
        bench.loop.pass(.nanoseconds(1))
        try await eventually("the tokens") { bench.tokens.withLock { $0 } == 3 }
        #expect(bench.place.count == 2 && bench.calls == 3)
        // What the first one brings later changes nothing.
        bench.place.release.set()
        bench.loop.pass(.seconds(60))
        #expect(bench.place.count == 2 && bench.failures.withLock { $0 }.isEmpty)
    }

    @Test(
        "made anew every two seconds; the first one has its whole time, and serves as well", arguments: [true, false])
    func slow(isOAuth: Bool) async throws {
        let bench = try Bench(isOAuth: isOAuth, silent: 0..<100)
        defer { bench.place.release.set() }
        bench.refresh()
        try await eventually("the first request") { bench.place.count == 1 }
        for count in 2...5 {
            bench.loop.pass(.seconds(2))
            try await eventually("request \(count)") { bench.place.count == count }
        }
        bench.place.release.set()
        try await eventually("the token") { bench.tokens.withLock { $0 } == 1 }
        #expect(bench.calls == 1)
    }

    @Test("a call that comes later finds the service back within two seconds", arguments: [true, false])
    func laterCall(isOAuth: Bool) async throws {
        let bench = try Bench(isOAuth: isOAuth, silent: 0..<2)
        defer { bench.place.release.set() }
        let first = CallProgress(.refresh, repeatsPlaceAfter: .seconds(2))
        bench.refresh(first)
        try await eventually("the first request") { bench.place.count == 1 }
        bench.loop.pass(.seconds(2))
        try await eventually("the second") { bench.place.count == 2 }
        first.cancellation.cancel()
        // No call waits, so no request is made.
        bench.loop.pass(.seconds(5))
        #expect(bench.place.count == 2)
        bench.refresh()
        try await eventually("the token") { bench.tokens.withLock { $0 } == 1 }
        #expect(bench.place.count == 3)
    }

    @Test("none for a call that wants none", arguments: [true, false])
    func notWanted(isOAuth: Bool) async throws {
        let bench = try Bench(isOAuth: isOAuth, silent: 0..<1)
        defer { bench.place.release.set() }
        bench.refresh(CallProgress(.refresh))
        try await eventually("the first request") { bench.place.count == 1 }
        bench.loop.pass(.seconds(20))
        #expect(bench.place.count == 1)
        bench.place.release.set()
        try await eventually("the token") { bench.tokens.withLock { $0 } == 1 }
    }
}

/// Which of the requests for a place gives the calls that wait their result.
@Suite struct PlaceRequestsTests {
    private typealias Requests = PlaceRequests<String>

    private static func ask(
        _ requests: inout Requests, _ member: Requests.Member, _ result: Result<String, IdentityError>,
        hasTime: Bool = true
    ) -> String {
        switch requests.handle(result, of: member, hasTime: hasTime) {
        case .wait: "wait"
        case .drop: "drop"
        case .finish(.success(let place)): place
        case .finish(.failure(let error)): error.message
        }
    }

    private static func failure(_ message: String, _ status: Int? = nil) -> Result<String, IdentityError> {
        .failure(IdentityError(.transient(retryAfter: nil), status: status, message: message))
    }

    private static func both() -> Requests {
        var requests = Requests()
        requests.begin()
        let areBegun = [requests.beginBeside(), requests.beginBeside()]
        #expect(areBegun == [true, true], "the one beside the first may be made anew")
        return requests
    }

    @Test("the first response counts, whatever it says; what comes later is dropped", arguments: [false, true])
    func first(isFirst: Bool) {
        for (result, expected) in [(.success("place"), "place"), (Self.failure("no", 404), "no")] {
            var requests = Self.both()
            #expect(Self.ask(&requests, isFirst ? .first : .beside, result) == expected)
            #expect(Self.ask(&requests, isFirst ? .beside : .first, .success("late")) == "drop")
            let mayBegin = requests.beginBeside()
            #expect(!mayBegin)
        }
    }

    @Test("without a response of one the other is waited for; without any the first one's error counts")
    func lost() {
        var requests = Self.both()
        #expect(Self.ask(&requests, .beside, Self.failure("beside")) == "wait")
        let mayBegin = requests.beginBeside()
        #expect(mayBegin, "another one is made beside the first")
        #expect(Self.ask(&requests, .first, Self.failure("first")) == "wait")
        let mayBeginAgain = requests.beginBeside()
        #expect(!mayBeginAgain)
        #expect(Self.ask(&requests, .beside, Self.failure("beside")) == "first")
        var alone = Requests()
        alone.begin()
        #expect(Self.ask(&alone, .first, Self.failure("first")) == "first")
    }

    @Test("the end of the first one's time ends both")
    func time() {
        var requests = Self.both()
        #expect(Self.ask(&requests, .first, Self.failure("first"), hasTime: false) == "first")
        #expect(Self.ask(&requests, .beside, .success("late")) == "drop")
    }
}
