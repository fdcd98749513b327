/// Users that come and go while Lanyard runs. On the home's queue, unless it is said otherwise.
extension SessionHome: UserOperations {
    /// From anywhere.
    package func perform(
        _ request: UserRequest, reply: @escaping @Sendable (Result<UserOutcome, UserFault>) -> Void
    ) {
        loop.post { [self] in
            guard !isStopped, !isSettling else { return reply(.failure(.stopping)) }
            registrar.perform(request, reply)
        }
    }
}
