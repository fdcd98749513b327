import IdentityTestSupport
import LanyardFoundations
import TestSupport
import Testing

@testable import LanyardIdentity
@testable import LanyardSessionInterface
@testable import LanyardSettings

/// A service whose location comes once. Afterwards the location fails, or is silent. The service itself works.
private final class Service: Sendable {
    enum Later { case fails, isSilent, works }
    private final class State: Sendable {
        let later = Guarded(Later.fails)
        /// The next responses to calls with a token.
        let refusals = Guarded<[(token: String, response: RawResponse)]>([])
        let asked = Guarded(0)
    }

    let bench: IdentityBench
    private let state: State

    init() throws {
        let state = State()
        self.state = state
        bench = try IdentityBench { request, path in
            guard path.hasSuffix("/location") else {
                return state.refusals.withLock { refusals in
                    refusals.firstIndex { request["Authorization"] == "Bearer " + $0.token }
                        .map { refusals.remove(at: $0).response }
                }
            }
            let asked = state.asked.withLock { asked in
                defer { asked += 1 }
                return asked
            }
            return switch state.later.withLock({ $0 }) {
            case .fails where asked > 0: IdentityBench.json(503, "{}")
            case .isSilent where asked > 0: .text("")
            case .fails, .isSilent, .works: nil
            }
        }
    }

    var asked: Int { state.asked.withLock { $0 } }
    var calls: Int { bench.server.requests.count { $0.method == "POST" } }

    func refuse(_ refusals: [(token: String, response: RawResponse)]) {
        state.refusals.withLock { $0 = refusals }
    }

    func setLocation(_ later: Later) { state.later.withLock { $0 = later } }
}

/// A service's origin serves while its location cannot be had, whatever made a call ask for it again.
@Suite("App Services: the former location") struct AppServicesFormerLocationTests {
    private static let refusal = IdentityBench.json(401, #"{"error":"invalid session","error_code":"InvalidSession"}"#)

    @Test("one user's refused refresh token, unconfirmed, leaves the calls of others as they are")
    func otherUsers() async throws {
        let service = try Service()
        _ = try await service.bench.refresh("alice").get()
        service.refuse([("bob", Self.refusal)])
        let error = await service.bench.refresh("bob").failure
        #expect(error?.verdict == .transient(retryAfter: nil))
        #expect(error?.message.contains("not taken for final") == true, "\(error?.message ?? "")")
        for _ in 0..<2 { _ = try await service.bench.refresh("alice").get() }
        // Neither of these calls has asked for the location.
        #expect(service.asked == 2)
    }

    @Test("an unconfirmed refusal is not sent again before the location has come; then it is final")
    func refusedOnce() async throws {
        let service = try Service()
        _ = try await service.bench.refresh("alice").get()
        service.refuse([("bob", Self.refusal), ("bob", Self.refusal)])
        for _ in 0..<3 {
            let error = await service.bench.refresh("bob").failure
            #expect(error?.verdict == .transient(retryAfter: nil))
            #expect(error?.message.contains("not taken for final") == true, "\(error?.message ?? "")")
        }
        #expect(service.calls == 2)
        service.setLocation(.works)
        #expect(await service.bench.refresh("bob").failure?.verdict == .sessionDead)
        #expect(service.calls == 3)
    }

    @Test("a 404 that passes leaves the origin known while the location fails, which is asked for once in five minutes")
    func blip() async throws {
        let service = try Service()
        let (bench, loop) = (service.bench, service.bench.loop)
        loop.freezeTime()
        _ = try await bench.refresh("alice").get()
        service.refuse([("carol", .response(404, "Not Found", body: "<html>").closing)])
        #expect(await bench.refresh("carol").failure?.status == 404)
        for _ in 0..<2 { _ = try await bench.refresh("carol").get() }
        loop.pass(AppServicesPlace.retryInterval - .nanoseconds(1))
        _ = try await bench.refresh("alice").get()
        #expect(service.asked == 2)
        service.setLocation(.works)
        loop.pass(.nanoseconds(1))
        _ = try await bench.refresh("alice").get()
        #expect(service.asked == 3)
    }
}

/// The same with a location that is silent: libcurl's time cannot be passed.
@Suite("App Services: a silent location") struct LongSilentLocationTests {
    @Test("it is waited for as long as leaves time for the call, once in five minutes")
    func silent() async throws {
        let service = try Service()
        _ = try await service.bench.refresh("alice").get()
        service.setLocation(.isSilent)
        service.refuse([("carol", .response(404, "Not Found", body: "<html>").closing)])
        #expect(await service.bench.refresh("carol").failure?.status == 404)
        for _ in 0..<2 { _ = try await service.bench.refresh("carol").get() }
        #expect(service.asked == 2 && service.calls == 4)
    }
}
