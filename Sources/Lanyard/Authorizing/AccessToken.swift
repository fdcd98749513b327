/// An access token as the request path uses it: immutable, published to every shard.
package struct AccessToken: Sendable {
    package let user: UserIndex
    /// Grows with each new access token of the session.
    package let generation: UInt64
    /// The b64token, without scheme.
    package let token: Secret
    /// From here on a request waits for the refresh that is under way, up to `refresh.wait_max` (refresh-policy rule 4);
    /// `.never` while nothing is worth waiting for.
    package let waitsFrom: Instant
    /// From here on it must not be used.
    package let usableUntil: Instant

    package init(user: UserIndex, generation: UInt64, token: Secret, waitsFrom: Instant, usableUntil: Instant) {
        self.user = user
        self.generation = generation
        self.token = token
        self.waitsFrom = waitsFrom
        self.usableUntil = usableUntil
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

    /// Why there is no token; each is a problem type of design §6.
    package enum Refusal: Equatable, Sendable {
        /// A person must log in.
        case loginRequired
        /// The identity service refused the configured credential.
        case credentialRefused
        /// The identity service does not answer; the next attempt is due then.
        case identityUnreachable(nextAttempt: Instant)
    }
}
