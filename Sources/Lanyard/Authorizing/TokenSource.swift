/// What the request path asks of the session path.
package protocol TokenSource: AnyObject, Sendable {
    /// A request found no usable token of `user`. Called on a shard, at most once until the next publication for that user
    /// arrives; returns at once. The answer is a publication.
    func tokenNeeded(by user: UserIndex)

    /// An upstream refused the token of `generation`. Called on a shard, at most once for a generation until the answer arrives; returns at
    /// once. The answer is a publication: a newer token, none, the same one under way to be renewed, or the same one whose renewal is denied.
    /// The same one with `.possible(from: .past)` is never an answer. However many shards and requests ask, one refresh is made.
    func tokenRefused(by user: UserIndex, generation: UInt64)
}
