import Lanyard
import Testing

/// What becomes of an answer that means "token refused".
@Suite struct RefusedAnswerTests {
    @Test("a replay needs body and token; what makes it impossible decides at once")
    func steps() {
        let parts: [RefusedAnswer.Part] = [.ready, .awaited, .lost(.bodyTooLarge)]
        for body in parts {
            for token in [.ready, .awaited, .lost(.cooldown)] as [RefusedAnswer.Part] {
                let step = RefusedAnswer(body: body, token: token).step
                switch (body, token) {
                case (.ready, .ready): #expect(step == .replay)
                case (.lost, _): #expect(step == .relay(.bodyTooLarge))
                case (_, .lost): #expect(step == .relay(.cooldown))
                default: #expect(step == .wait)
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
