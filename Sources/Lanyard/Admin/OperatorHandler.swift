/// What an operator listener serves: health's pages or the admin API. It judges heads; all I/O is the connection's.
protocol OperatorHandler: AnyObject, Sendable {
    /// Judges a whole head that keeps HTTP's rules. On the listener's loop; must not wait.
    ///
    /// - Parameters:
    ///   - target: of the head, read.
    ///   - bytes: what `head` and `table` point into; lent for the length of the call.
    func decide(
        _ head: RequestHead, _ target: OperatorTarget, in bytes: Bytes, _ table: FieldTable, peer: PeerCredentials
    ) -> OperatorDecision
}
