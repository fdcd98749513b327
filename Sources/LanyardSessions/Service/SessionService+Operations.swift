import LanyardFoundations
import LanyardSessionInterface

/// Operators' calls while Lanyard runs. On the service's queue, unless stated otherwise.
extension SessionService: UserOperations {
    /// From anywhere.
    package func perform(
        _ call: UserCall, reply: @escaping @Sendable (Result<UserOutcome, UserError>) -> Void
    ) {
        loop.post { [self] in
            guard !isStopped, !isDraining else { return reply(.failure(.stopping)) }
            whenStarted { [self] in userService.perform(call, reply) }
        }
    }
}

extension SessionService {
    func add(_ wait: TokenWait) {
        loop.assertIsCurrent()
        subscribers.add(wait)
    }

    func remove(_ wait: TokenWait) {
        loop.assertIsCurrent()
        subscribers.remove(wait)
    }
}
