/// Users that come and go while Lanyard runs. On the home's queue, unless it is said otherwise.
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
