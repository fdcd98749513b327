import Testing

@testable import LanyardAdmin
@testable import LanyardFoundations

@Suite struct TokenGuessDelayTests {
    private let start = Instant(nanoseconds: 1_000_000_000_000)

    @Test("each wrong token waits twice as long as the one before, up to a second")
    func grows() {
        var guesses = TokenGuessDelay()
        let delays = (0..<8).map { _ in guesses.delay(at: start) }
        #expect(delays == [50, 100, 200, 400, 800, 1000, 1000, 1000].map { .milliseconds($0) })
    }

    @Test("one guess is forgotten a second; who waits for each response stays at the longest delay")
    func forgets() {
        var guesses = TokenGuessDelay()
        for _ in 0..<100 { _ = guesses.delay(at: start) }
        #expect(guesses.delay(at: start + .seconds(1)) == TokenGuessDelay.delayMax)
        #expect(guesses.delay(at: start + .seconds(4)) == .milliseconds(400))
        #expect(guesses.delay(at: start + .seconds(1000)) == TokenGuessDelay.delayMin)
    }
}
