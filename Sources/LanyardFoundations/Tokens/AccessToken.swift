/// An access token as the request path uses it: immutable, published to each shard.
///
/// A class: each request holds its token, and one reference is all that it counts.
package final class AccessToken: Sendable {
    /// Whose token it is.
    package let user: UserIndex
    /// Grows with each new access token of the session.
    package let generation: UInt64
    /// The b64token, without the scheme (RFC 6750 §2.1).
    package let token: Secret
    /// From this instant a request waits for the refresh that is in progress, up to `refresh.wait_max` (refresh.md 4).
    /// `.never` if no refresh is worth waiting for.
    package let waitsFrom: Instant
    /// From this instant the token must not be used.
    package let usableUntil: Instant
    /// The token's end, without the allowance for clocks; `.never` if it is unknown.
    package let expiresAt: Instant
    /// How long it lives as a whole; zero if that is unknown.
    package let lifetime: Duration
    /// How the token can be replaced if an upstream refuses it.
    package let renewal: Renewal
    /// The account of the token. Two tokens of the user have the same number only if no other account came between them.
    package let account: AccountNumber
    /// How often the user had been logged out, or had become another account, when the token was published. Set by the
    /// token cache.
    package let accountEpoch: UInt32

    /// - Parameters:
    ///   - expiresAt: nil: `usableUntil`.
    ///   - renewal: by default a refresh may be forced at any time.
    package init(
        user: UserIndex, generation: UInt64, account: AccountNumber = .unknown, token: Secret, waitsFrom: Instant,
        usableUntil: Instant, expiresAt: Instant? = nil, lifetime: Duration = .zero,
        renewal: Renewal = .possible(from: .past), accountEpoch: UInt32 = 0
    ) {
        self.user = user
        self.generation = generation
        self.account = account
        self.token = token
        self.waitsFrom = waitsFrom
        self.usableUntil = usableUntil
        self.expiresAt = expiresAt ?? usableUntil
        self.lifetime = lifetime
        self.renewal = renewal
        self.accountEpoch = accountEpoch
    }

    /// The same token, as of an epoch of its user's accounts.
    package func inEpoch(_ accountEpoch: UInt32) -> AccessToken { copy(of: user, accountEpoch) }

    /// The same token under another index of its user.
    package func renamed(_ user: UserIndex) -> AccessToken { copy(of: user, accountEpoch) }

    private func copy(of user: UserIndex, _ accountEpoch: UInt32) -> AccessToken {
        AccessToken(
            user: user, generation: generation, account: account, token: token, waitsFrom: waitsFrom,
            usableUntil: usableUntil, expiresAt: expiresAt, lifetime: lifetime, renewal: renewal,
            accountEpoch: accountEpoch)
    }

    // MARK: Tokens for others (fleet.md 2)

    /// Seconds that its new holder may use it: some less than it lives, because the holder counts from when the response came. nil: its end
    /// is unknown.
    package func secondsForOthers(at now: Instant) -> Int? {
        expiresAt == .never ? nil : IssuedLifetime.seconds(rest: expiresAt - now)
    }

    /// It lives long enough to be of use to another program: 3 s, or a quarter of a life under 12 s.
    package func mayBeHandedOut(at now: Instant) -> Bool {
        guard now < usableUntil else { return false }
        let restMin = lifetime > .zero ? IssuedLifetime.restMin(lifetime: lifetime) : .seconds(3)
        return expiresAt == .never || expiresAt - now >= restMin
    }

    /// How a refused token can be replaced (refresh.md 5, refresh-outcomes.md 11).
    package enum Renewal: Equatable, Sendable {
        /// A refresh may be forced from this instant, because of the cooldown and the hourly budget. `.past`: at once.
        case possible(from: Instant)
        /// A refresh is in flight, and its result is worth waiting for.
        case inProgress
        /// The identity service asked for no call before this instant.
        case failing(until: Instant)
        /// Another program renews the token in its file (a static identity).
        case elsewhere
        /// Nothing renews the token: there is neither a refresh token nor a credential.
        case impossible
    }

    /// What is known of one user's token. The session path publishes it whole at each change.
    package enum Availability: Sendable {
        /// A token is available until its `usableUntil`.
        case token(AccessToken)
        /// A login or a refresh is in progress: requests park, up to `refresh.wait_max`.
        case pending
        /// No token, and waiting does not help: requests are refused at once.
        case none(Refusal)
    }

    /// Why there is no token; each is a problem type (docs/reference/errors.md). No `Error`: it is published as a state.
    package enum Refusal: Equatable, Sendable {
        /// A login is needed, and nothing configured can make it.
        case loginRequired
        /// Another Lanyard holds the session and says that its user must log in there. It is asked again. The text says who; never a
        /// secret.
        case loginRequiredElsewhere(because: String)
        /// The same of a credential that was refused there, which an operator corrects.
        case credentialRefusedElsewhere(because: String)
        /// An operator has logged the user out. A configured credential can log in again, which an operator asks for.
        case loggedOut
        /// Lanyard cannot log the user in with the configured credential. The text names the file, or what the identity
        /// service said of which app; never a secret. It is made once for each publication.
        ///
        /// - action: who must act.
        case credentialRefused(because: String, action: ResponsibleParty = .operator)
        /// The identity service refuses the client, or what it asks for, and the session stays: an operator corrects the client or the
        /// configuration. The text says what was refused; never a secret.
        ///
        /// - action: who must act.
        case clientRefused(because: String, action: ResponsibleParty = .operator)
        /// The access token that the route asks for is refused, and the session has others. The text names the route and its `token`,
        /// and says why; never a secret.
        ///
        /// - action: who must act.
        case variantRefused(because: String, action: ResponsibleParty = .operator)
        /// The identity service responds with access tokens that cannot be used. The text says why; never a secret.
        case tokenUnusable(because: String)
        /// No user of the name exists: it is not configured, or the admin API removed the configured one. The admin API
        /// may add one.
        case userUnknown(wasRemoved: Bool)
        /// The identity service gives no token for now. The next attempt is due at this instant. The text says why, such as a
        /// certificate that is not trusted; never a secret. nil: the first attempt is in progress.
        ///
        /// - action: who must act.
        /// - requested: how a request brings the attempt forward; nil: it does not.
        case identityUnreachable(
            nextAttemptAt: Instant, because: String? = nil, action: ResponsibleParty = .nobody,
            requested: RequestedAttempt? = nil)
    }

    /// How a request that finds no token brings the next attempt of the session forward (refresh.md 4). The session path moves the
    /// attempt by it, and the request path tells the client the same time.
    package struct RequestedAttempt: Equatable, Sendable {
        /// From the request to the attempt.
        private let delay: Duration
        /// The identity service's own limit.
        private let notBefore: Instant
        /// An attempt that is due within this time stays where it is.
        private let delayMax: Duration

        package init(after delay: Duration, notBefore: Instant, delayMax: Duration) {
            self.delay = delay
            self.notBefore = notBefore
            self.delayMax = delayMax
        }

        /// When the attempt is made that was planned for `planned`, after a request at `now`.
        package func instant(insteadOf planned: Instant, at now: Instant) -> Instant {
            planned > now + delayMax ? min(planned, max(notBefore, now + delay)) : planned
        }
    }
}

/// What the request path requests from the session path.
package protocol TokenSource: AnyObject, Sendable {
    /// A request found no usable token of `user`. A publication is the reply.
    ///
    /// Called on a shard, at most once until the next publication for that user. Returns at once.
    func tokenNeeded(by user: UserIndex)

    /// An upstream refused the token of `generation`. The first publication for the user that has heard of `number` is the reply: a newer
    /// token, no token, or the same token with a renewal that is in progress or denied. The same token with `.possible(from: .past)` is
    /// never the reply, because the cache would report the next refusal at once.
    ///
    /// Called on a shard, at most once for a generation until the reply. Returns at once. One refresh is made, however
    /// many shards and requests call.
    ///
    /// - Parameter number: of the refusal, one higher than that of the cache's refusal before.
    func tokenRefused(by user: UserIndex, generation: UInt64, number: RefusalNumber)

    /// An upstream refused the token of `user`, and no refresh is forced, because cooldown or budget forbids it. It is counted and
    /// logged. There is no reply.
    ///
    /// Called on a shard, for each such response. Returns at once.
    func refreshDenied(by user: UserIndex)

    /// An upstream has refused the newer token, too, with which a request was sent once more. Nothing is asked for.
    ///
    /// Called on a shard, at most once in 30 s for each route. Returns at once.
    func freshTokenRefused(by user: UserIndex, generation: UInt64)
}

extension TokenSource {
    package func refreshDenied(by user: UserIndex) {}
    package func freshTokenRefused(by user: UserIndex, generation: UInt64) {}
}

/// Who uses the tokens that the session path publishes: the request path with a token cache in each shard. Each call reaches all its
/// caches, in order. All return at once.
package protocol TokenSubscriber: AnyObject, Sendable {
    /// The availability of `user`'s token from now on.
    ///
    /// - Parameter heard: the refusals that the session path had heard of when it published.
    func publish(_ availability: AccessToken.Availability, for user: UserIndex, heard: HeardRefusals)
    /// The account of `user` from now on. A token of another one is not used any more.
    func publish(_ account: AccountNumber, for user: UserIndex)
    /// The user that routes without a user of their own follow from now on. A reload gives it with the new routes.
    func activate(_ user: UserIndex?)
    /// How often tokens of `user` were used so far; nil: unknown.
    func uses(of user: UserIndex) -> TokenUses?
}

extension TokenSubscriber {
    package func uses(of user: UserIndex) -> TokenUses? { nil }
}

/// How often tokens of a user were used so far, by the responses of upstreams that have ended.
package struct TokenUses: Equatable, Sendable {
    /// All of them, or more. It differs from an earlier number if there were further ones.
    package var responses: UInt64
    /// Those with a status of 2xx or 3xx: an upstream has accepted the token.
    package var successes: UInt64

    package init(responses: UInt64, successes: UInt64) {
        self.responses = responses
        self.successes = successes
    }

    /// The uses by two subscribers together.
    package static func + (left: TokenUses, right: TokenUses) -> TokenUses {
        TokenUses(responses: left.responses &+ right.responses, successes: left.successes &+ right.successes)
    }
}
