import LanyardFoundations
import Testing

/// The times of an access token that is given to another program.
@Suite struct IssuedLifetimeTests {
    @Test(
        "expires_in is the rest without its tenth, without 5 s at most, rounded down, and 2 at least",
        arguments: [
            (.seconds(1800), 1795), (.seconds(50), 45), (.seconds(20), 18), (.milliseconds(19_999), 17),
            (.seconds(3), 2), (.seconds(1), 2), (.zero, 2), (.seconds(100_000_000_000), 99_999_999_995),
        ] as [(Duration, Int)])
    func seconds(_ rest: Duration, _ told: Int) { #expect(IssuedLifetime.seconds(rest: rest) == told) }

    @Test("a token needs 3 s of rest, of a life under 12 s a quarter")
    func restMin() {
        #expect(IssuedLifetime.restMin(lifetime: .seconds(1800)) == .seconds(3))
        #expect(IssuedLifetime.restMin(lifetime: .seconds(12)) == .seconds(3))
        #expect(IssuedLifetime.restMin(lifetime: .seconds(4)) == .seconds(1))
    }
}
