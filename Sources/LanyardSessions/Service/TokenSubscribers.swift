import LanyardFoundations

/// All subscribers to the tokens of the session path. Each of them gets every publication, in order. Belongs to the queue of `loop`.
///
/// A publication of a token names the refusals that the session path has heard of by then: it is the reply to those of its user's token.
final class TokenSubscribers: @unchecked Sendable {
    private let list: [any TokenSubscriber]
    private let loop: EventLoop
    private var heard = HeardRefusals.none
    /// Operators' calls that wait for a token.
    private var waits: [UserIndex: [TokenWait]] = [:]

    init(_ list: [any TokenSubscriber], on loop: EventLoop) {
        self.list = list
        self.loop = loop
    }

    /// The session path is about to handle this refusal: publications confirm it from now on.
    func recordRefusal(_ number: RefusalNumber) {
        loop.assertIsCurrent()
        heard.record(number)
    }

    /// The availability of `user`'s token from now on.
    func publish(_ availability: AccessToken.Availability, for user: UserIndex) {
        loop.assertIsCurrent()
        for subscriber in list { subscriber.publish(availability, for: user, heard: heard) }
        guard !waits.isEmpty else { return }
        for wait in waits[user] ?? [] { wait.handlePublication() }
    }

    /// The wait is told of each publication for its index.
    func add(_ wait: TokenWait) {
        loop.assertIsCurrent()
        waits[wait.index, default: []].append(wait)
    }

    func remove(_ wait: TokenWait) {
        loop.assertIsCurrent()
        waits[wait.index]?.removeAll { $0 === wait }
        if waits[wait.index]?.isEmpty == true { waits[wait.index] = nil }
    }

    /// The account of `user` from now on.
    func publish(_ account: AccountNumber, for user: UserIndex) {
        loop.assertIsCurrent()
        for subscriber in list { subscriber.publish(account, for: user) }
    }

    /// The user that routes without a user of their own follow from now on.
    func activate(_ user: UserIndex?) {
        loop.assertIsCurrent()
        for subscriber in list { subscriber.activate(user) }
    }

    /// How often tokens of `user` were used so far, by all subscribers together; nil: one of them does not know.
    func uses(of user: UserIndex) -> TokenUses? {
        loop.assertIsCurrent()
        var sum = TokenUses(responses: 0, successes: 0)
        for subscriber in list {
            guard let uses = subscriber.uses(of: user) else { return nil }
            sum = sum + uses
        }
        return sum
    }
}
