/// Publishes tokens to all shards. Each call reaches every shard through its queue, in order.
package protocol TokenPublisher: AnyObject, Sendable {
    /// The availability of `user`'s token from now on.
    func publish(_ availability: AccessToken.Availability, for user: UserIndex)
    /// The user that routes without a user of their own follow from now on.
    func activate(_ user: UserIndex?)
}
