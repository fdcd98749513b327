/// The operations that the admin API uses. From any thread; every call returns at once.
package protocol UserOperations: AnyObject, Sendable {
    /// All users as of the latest change: in the order of the configuration, then in the order in which they were
    /// added. It never waits.
    var report: SessionReport { get }

    /// Carries out an operator's request (architecture.md 5.6). The reply comes exactly once, on any queue, after
    /// `report` and requests show what it says. Calls to an identity service in between have their own time limits (30
    /// s).
    func perform(_ request: UserRequest, reply: @escaping @Sendable (Result<UserOutcome, UserError>) -> Void)
}
