/// Lets the request path be made before the session path: shards ask here, and the home of the sessions answers once it stands behind.
final class TokenSourceDoor: TokenSource {
    private let home = Guarded<(any TokenSource)?>(nil)

    func lead(to source: any TokenSource) { home.withLock { $0 = source } }

    /// Off the steady path: a shard asks only when it has no usable token.
    func tokenNeeded(by user: UserIndex) { home.withLock { $0 }?.tokenNeeded(by: user) }

    func tokenRefused(by user: UserIndex, generation: UInt64) {
        home.withLock { $0 }?.tokenRefused(by: user, generation: generation)
    }
}
