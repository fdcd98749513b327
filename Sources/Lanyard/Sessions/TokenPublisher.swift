/// Where the session path publishes: all shards, behind one door. Each call reaches every shard through its queue, in order.
package protocol TokenPublisher: AnyObject, Sendable {
    /// What is known of `user`'s token from now on.
    func publish(_ availability: AccessToken.Availability, for user: UserIndex)
    /// The user that routes without one of their own follow from now on.
    func activate(_ user: UserIndex?)
}
