/// What the request path requests from the session path.
package protocol TokenSource: AnyObject, Sendable {
    /// A request found no usable token of `user`. A publication is the reply.
    ///
    /// Called on a shard, at most once until the next publication for that user. Returns at once.
    func tokenNeeded(by user: UserIndex)

    /// An upstream refused the token of `generation`. A publication is the reply: a newer token, no token, or the same
    /// token with a renewal that is under way or denied. The same token with `.possible(from: .past)` is never the reply.
    ///
    /// Called on a shard, at most once for a generation until the reply. Returns at once. One refresh is made, however
    /// many shards and requests call.
    func tokenRefused(by user: UserIndex, generation: UInt64)
}
