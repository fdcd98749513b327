import LanyardFoundations
import TestSupport
import Testing

@testable import LanyardIdentity
@testable import LanyardSessionInterface
@testable import LanyardSettings

/// The two calls of an attempt at a server that does not respond to the first (refresh.md 17).
@Suite struct CancelledCallTests {
    @Test(
        "a second call is made on another connection; the first is cancelled, and ends without a response of the server"
    )
    func cancelled() async throws {
        let release = Milestone()
        defer { release.set() }
        let count = Guarded(0)
        let bench = try OAuthBench(script: { request in
            guard request.target == "/token" else { return nil }
            let number = count.withLock { count in
                count += 1
                return count
            }
            return number == 1 ? RawResponse.close.after(release) : nil
        })
        let (first, second) = (CallProgress(.login), CallProgress(.login, secondUntil: .now + .seconds(3_600)))
        let outcomes = Guarded<[String]>([])
        let login = { (name: String, progress: CallProgress) in
            bench.identity.login(.configured(.clientCredentials), guarded: nil, progress: progress) { result in
                outcomes.withLock { $0.append(name + (result.failure == nil ? " token" : " failed")) }
            }
        }
        login("first", first)
        try await eventually("the first request") { bench.forms.count == 1 }
        login("second", second)
        try await eventually("the second response") { outcomes.withLock { $0 } == ["second token"] }
        let connections = bench.server.records.filter { $0.requests.contains { $0.target == "/token" } }
        #expect(connections.count == 2)
        first.cancellation.cancel()
        try await eventually("the end of the first") { outcomes.withLock { $0 } == ["second token", "first failed"] }
        #expect(!release.isSet)
        // Nothing is left of it: the identity makes its next call as ever.
        #expect(await bench.login(.clientCredentials).failure == nil)
    }

    @Test("a call that is cancelled before it is sent is not sent")
    func unsent() async throws {
        let bench = try OAuthBench()
        let progress = CallProgress(.login)
        progress.cancellation.cancel()
        let failure = Guarded<IdentityError?>(nil)
        bench.identity.login(.configured(.clientCredentials), guarded: nil, progress: progress) { result in
            failure.withLock { $0 = result.failure }
        }
        try await eventually("its end") { failure.withLock { $0 } != nil }
        #expect(bench.forms.isEmpty)
    }

    @Test("the time of an attempt holds for all steps of the identity's calls, and of a second call what is left of it")
    func limits() throws {
        let bench = try OAuthBench()
        let (transport, loop) = (bench.identity.transport, bench.loop)
        loop.freezeTime()
        loop.perform {
            #expect(transport.deadline(of: CallProgress(.login)) == loop.now + .seconds(30))
            #expect(transport.deadline(of: CallProgress(.login, timeout: .seconds(8))) == loop.now + .seconds(8))
            #expect(transport.newDeadline == loop.now + .seconds(8))
            let left = loop.now + .seconds(3)
            #expect(transport.deadline(of: CallProgress(.login, secondUntil: left)) == left)
            #expect(transport.deadline(of: CallProgress(.login)) == loop.now + .seconds(30))
        }
    }
}
