import LanyardFoundations
import LanyardRequestPath
import Testing

/// What becomes of a response that means "token refused".
@Suite struct RefusedResponseTests {
    @Test("a replay needs body and token; what makes it impossible decides at once")
    func steps() {
        let parts: [RefusedResponse.Part] = [.ready, .awaited, .lost(.bodyTooLarge)]
        for body in parts {
            for token in [.ready, .awaited, .lost(.cooldown)] as [RefusedResponse.Part] {
                let action = RefusedResponse(body: body, token: token).action
                switch (body, token) {
                case (.ready, .ready): #expect(action == .replay)
                case (.lost, _): #expect(action == .relay(.bodyTooLarge))
                case (_, .lost): #expect(action == .relay(.cooldown))
                default: #expect(action == .wait)
                }
            }
        }
    }

    @Test("a route's breaker stays open for 30 s from the first refusal of a fresh token")
    func breaker() {
        let breaker = RouteBreaker()
        let start = Instant(nanoseconds: 1_000_000_000_000)
        #expect(!breaker.isOpen(at: start))
        #expect(breaker.trip(at: start))
        #expect(!breaker.trip(at: start + .seconds(20)))
        #expect(breaker.isOpen(at: start + .milliseconds(29_999)) && !breaker.isOpen(at: start + .seconds(30)))
        #expect(breaker.trip(at: start + .seconds(30)))
        #expect(breaker.isOpen(at: start + .seconds(59)))
    }
}
