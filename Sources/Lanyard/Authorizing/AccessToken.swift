/// An access token as the request path uses it: immutable, published to every shard.
package struct AccessToken: Sendable {
    package let user: UserIndex
    /// Grows with each new access token of the session.
    package let generation: UInt64
    /// The b64token, without scheme.
    package let token: Secret
    /// From here on a request waits for the refresh that is under way, up to `refresh.wait_max` (refresh.md 4);
    /// `.never` while nothing is worth waiting for.
    package let waitsFrom: Instant
    /// From here on it must not be used.
    package let usableUntil: Instant
    /// What to expect if an upstream refuses it.
    package let renewal: Renewal
    /// Tells the accounts apart that a user may have had: equal for one account while the process lives. nil: nobody knows whose it is.
    package let account: Int?
    /// How often the user had been logged out, or had become another account, when it came: the board's.
    package internal(set) var accountEpoch: UInt32 = 0

    /// - Parameter renewal: by default one may be forced at any time.
    package init(
        user: UserIndex, generation: UInt64, account: Int? = nil, token: Secret, waitsFrom: Instant,
        usableUntil: Instant, renewal: Renewal = .possible(from: .past)
    ) {
        self.user = user
        self.generation = generation
        self.account = account
        self.token = token
        self.waitsFrom = waitsFrom
        self.usableUntil = usableUntil
        self.renewal = renewal
    }

    /// How a token that an upstream refuses can be replaced (refresh.md 5, refresh.md 11).
    package enum Renewal: Equatable, Sendable {
        /// A refresh may be forced from then on: cooldown and hourly budget allow none before. `.past`: at once.
        case possible(from: Instant)
        /// One is in flight: its answer is worth waiting for.
        case underWay
        /// The identity service has asked not to be called before then.
        case failing(until: Instant)
        /// Somebody else renews it, as with a static identity.
        case impossible
    }

    /// What a shard knows of one user's token. Published by the session path, whole, at each change.
    package enum Availability: Sendable {
        /// In hand until `usableUntil`.
        case token(AccessToken)
        /// A login or a refresh is under way: requests park, up to `refresh.wait_max`.
        case pending
        /// None, and waiting does not help: requests are refused at once.
        case none(Refusal)
    }

    /// Why there is no token; each is a problem type of architecture.md 6.1.
    package enum Refusal: Equatable, Sendable {
        /// A person must log in.
        case loginRequired
        /// Lanyard cannot log the user in with what is configured. In plain words, made once for each publication: which file, or what the
        /// identity service said of which app; never a secret.
        case credentialRefused(because: String)
        /// Nobody bears the name of the user that the route names: nothing configures it, or the configured one was removed by the admin API,
        /// which may bring another.
        case userUnknown(wasRemoved: Bool)
        /// The identity service does not answer; the next attempt is due then.
        case identityUnreachable(nextAttempt: Instant)
    }
}
