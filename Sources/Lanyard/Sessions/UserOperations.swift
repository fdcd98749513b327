/// What the admin API asks of the sessions' home. From any thread; every call returns at once.
package protocol UserOperations: AnyObject, Sendable {
    /// All users as of the latest change, in the order of the configuration, then as they came; waits for nobody.
    var report: SessionReport { get }

    /// Carries out what a person asks for (architecture.md 5.6). The reply comes exactly once, on whatever queue: when everything that it
    /// tells of can be seen by `report` and by requests. Calls to an identity service in between are bounded by its own time limits (30 s).
    func perform(_ request: UserRequest, reply: @escaping @Sendable (Result<UserOutcome, UserError>) -> Void)
}
