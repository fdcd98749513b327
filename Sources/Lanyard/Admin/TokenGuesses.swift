/// How long the answer to a wrong admin token is held back: it grows with the guesses of late. Pure.
///
/// A token of 32 random characters cannot be guessed at any rate. The delay makes a client that asks with a wrong token in a loop cost little.
/// It does not bound how fast many connections can try: a right token is answered at once, so that guesses never delay an operator.
struct TokenGuessDelay {
    static let delayMin = Duration.milliseconds(50)
    static let delayMax = Duration.seconds(1)
    /// One guess is forgotten in each.
    private static let forgetInterval = Duration.seconds(1)
    /// More doublings than lead to `delayMax`.
    private static let doublingsMax = 6

    private var count = 0
    private var latest = Instant.past

    /// The delay of one more wrong token.
    mutating func delay(at now: Instant) -> Duration {
        let forgotten = Int(min((now - latest) / Self.forgetInterval, Double(Self.doublingsMax)))
        count = min(max(count - forgotten, 0) + 1, Self.doublingsMax)
        latest = now
        return min(Self.delayMin * (1 << (count - 1)), Self.delayMax)
    }
}
