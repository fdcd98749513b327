/// How long the answer to a wrong admin token is held back: it grows with the guesses of late. Pure.
///
/// A token of 32 random characters cannot be guessed at any rate. The delay keeps a weak one from being tried a hundred thousand times a
/// second, and the machine from the work.
struct TokenGuesses {
    static let delayMin = Duration.milliseconds(50)
    static let delayMax = Duration.seconds(1)
    /// One guess is forgotten in each.
    private static let memory = Duration.seconds(1)
    /// More doublings than lead to `delayMax`.
    private static let countMax = 6

    private var count = 0
    private var latest = Instant.past

    /// The delay of one more wrong token.
    mutating func delay(at now: Instant) -> Duration {
        let forgotten = Int(min((now - latest) / Self.memory, Double(Self.countMax)))
        count = min(max(count - forgotten, 0) + 1, Self.countMax)
        latest = now
        return min(Self.delayMin * (1 << (count - 1)), Self.delayMax)
    }
}
