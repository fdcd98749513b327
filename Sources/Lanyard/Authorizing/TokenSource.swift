/// What the request path asks of the session path.
package protocol TokenSource: AnyObject, Sendable {
    /// A request found no usable token of `user`. Called on a shard, at most once until the next publication for that user
    /// arrives; returns at once. The answer is a publication.
    func tokenNeeded(by user: UserIndex)
}
