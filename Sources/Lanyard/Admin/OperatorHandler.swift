/// What an operator listener serves: the health pages or the admin API. It decides on heads and does no I/O.
protocol OperatorHandler: AnyObject, Sendable {
    /// Decides what to do with a valid request, from its head. On the listener's loop; must not wait.
    ///
    /// - Parameters:
    ///   - target: the target of `head`.
    ///   - bytes: the bytes that `head` and `table` point into; valid during this call only.
    func decide(
        _ head: RequestHead, _ target: OperatorTarget, in bytes: Bytes, _ table: FieldTable, peer: PeerCredentials
    ) -> OperatorDecision
}
