/// Operators' requests while Lanyard runs. On the service's queue, unless stated otherwise.
extension SessionService: UserOperations {
    /// From anywhere.
    package func perform(
        _ request: UserRequest, reply: @escaping @Sendable (Result<UserOutcome, UserError>) -> Void
    ) {
        loop.post { [self] in
            guard !isStopped, !isDraining else { return reply(.failure(.stopping)) }
            userService.perform(request, reply)
        }
    }
}
