import LanyardFoundations
import LanyardSessions
import TestSupport

/// Records the publications of a session service, in order.
final class PublicationLog: TokenSubscriber {
    private struct State {
        var news: [(user: UserIndex, availability: AccessToken.Availability)] = []
        var active: UserIndex?
        var accounts: [Int: AccountNumber] = [:]
    }

    private let state = Guarded(State())

    func publish(_ availability: AccessToken.Availability, for user: UserIndex, heard: HeardRefusals) {
        state.withLock { $0.news.append((user, availability)) }
    }

    func publish(_ account: AccountNumber, for user: UserIndex) {
        state.withLock { $0.accounts[user.number] = account }
    }

    func activate(_ user: UserIndex?) { state.withLock { $0.active = user } }

    var active: UserIndex? { state.withLock { $0.active } }

    /// The account that was published last for `user`.
    func account(_ user: Int = 0) -> AccountNumber? { state.withLock { $0.accounts[user] } }

    /// The latest for `user`.
    func latest(_ user: Int = 0) -> AccessToken.Availability? {
        state.withLock { $0.news.last { $0.user.number == user }?.availability }
    }

    func token(_ user: Int = 0) -> AccessToken? {
        if case .token(let token)? = latest(user) { token } else { nil }
    }

    func refusal(_ user: Int = 0) -> AccessToken.Refusal? {
        if case .none(let refusal)? = latest(user) { refusal } else { nil }
    }

    /// All tokens that were ever published for `user`.
    func tokens(_ user: Int = 0) -> [AccessToken] {
        state.withLock { state in
            state.news.compactMap { news in
                if case .token(let token) = news.availability, news.user.number == user { token } else { nil }
            }
        }
    }
}
