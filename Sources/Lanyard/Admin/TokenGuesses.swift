/// The delay of the response to a wrong admin token. It grows with the number of recent guesses. Pure.
///
/// A token of 32 random characters cannot be guessed at any rate. The delay limits the cost of a client that repeats a wrong token.
/// It does not limit the rate of guesses over many connections: a correct token is never delayed, so that guesses never delay an operator.
struct TokenGuessDelay {
    static let delayMin = Duration.milliseconds(50)
    static let delayMax = Duration.seconds(1)
    /// One guess is forgotten after each interval.
    private static let forgetInterval = Duration.seconds(1)
    /// More doublings than `delayMax` needs.
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
