/// Lets the request path be made before the session path: shards ask here, and the home of the sessions answers once it stands behind.
final class SessionTokenSource: TokenSource {
    private let target = Guarded<(any TokenSource)?>(nil)

    func connect(to source: any TokenSource) { target.withLock { $0 = source } }

    /// Off the steady path: a shard asks only when it has no usable token.
    func tokenNeeded(by user: UserIndex) { target.withLock { $0 }?.tokenNeeded(by: user) }

    func tokenRefused(by user: UserIndex, generation: UInt64) {
        target.withLock { $0 }?.tokenRefused(by: user, generation: generation)
    }
}
