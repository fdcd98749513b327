import LanyardFoundations

/// An operator's call that waits for an access token: for the login or the refresh in progress, as requests do (refresh.md 4). Belongs to
/// the sessions' loop.
///
/// Each publication for the token's index is a reason to look again, and so is the end of the time.
final class TokenWait: @unchecked Sendable {
    /// The index whose publications it waits for.
    let index: UserIndex
    /// The wait ends without a token.
    let end: Instant
    private let loop: EventLoop
    private let review: @Sendable () -> Void
    private lazy var timer = SessionTimer(on: loop) { [review] in review() }

    /// - Parameter review: called on the loop, after each publication and at `end`, until `stop`.
    init(for index: UserIndex, until end: Instant, on loop: EventLoop, review: @escaping @Sendable () -> Void) {
        self.index = index
        self.end = end
        self.loop = loop
        self.review = review
    }

    func start() {
        loop.assertIsCurrent()
        timer.set(at: end)
    }

    /// The next turn looks again: the publication is made in the middle of an event of the session.
    func handlePublication() {
        loop.assertIsCurrent()
        loop.post(review)
    }

    func stop() {
        loop.assertIsCurrent()
        timer.drop()
    }
}
