/// A token source that forwards to the sessions. It exists before them, because the request path is created first.
final class SessionTokenSource: TokenSource {
    private let target = Guarded<(any TokenSource)?>(nil)

    func connect(to source: any TokenSource) { target.withLock { $0 = source } }

    /// Not on the path of most requests: a shard calls this only when it has no usable token.
    func tokenNeeded(by user: UserIndex) { target.withLock { $0 }?.tokenNeeded(by: user) }

    func tokenRefused(by user: UserIndex, generation: UInt64) {
        target.withLock { $0 }?.tokenRefused(by: user, generation: generation)
    }
}
