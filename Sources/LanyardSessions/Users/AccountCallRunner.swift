import LanyardFoundations
import LanyardSessionInterface

/// Makes one call as a user: it takes the token from the user's session, sends the call, and renews the token once if
/// the service refuses it. It runs `AccountAttempt`.
///
/// Belongs to the queue of `SessionService`. It lives until `done` was called.
final class AccountCallRunner<Value: Sendable>: @unchecked Sendable {
    /// One exchange with the identity service. The reply may come on any queue.
    typealias Exchange =
        @Sendable (
            _ token: Secret, _ reply: @escaping @Sendable (Result<Value, IdentityError>) -> Void
        ) -> Void

    private let runner: SessionRunner
    private let environment: any UserEnvironment
    private let exchange: Exchange
    private let done: (Result<Value, UserError>) -> Void
    private var attempt: AccountAttempt

    /// - Parameter done: called once, on the queue; never after the end of the service.
    init(
        _ attempt: AccountAttempt, as runner: SessionRunner, in environment: any UserEnvironment,
        by exchange: @escaping Exchange, done: @escaping (Result<Value, UserError>) -> Void
    ) {
        self.attempt = attempt
        self.runner = runner
        self.environment = environment
        self.exchange = exchange
        self.done = done
    }

    func start() {
        environment.loop.assertIsCurrent()
        follow(attempt.begin(tokens, at: .now))
    }

    /// A removed user has no tokens.
    private var tokens: SessionTokens? {
        !runner.isServing ? nil : runner.coordinator.session.tokens
    }

    private func follow(_ step: AccountAttempt.Step) {
        switch step {
        case .send(let token):
            exchange(token) { [self] result in
                environment.loop.post { [self] in complete(result) }
            }
        case .renew:
            runner.refreshNow { [self] reply in
                // After the current event: the report then shows the new token.
                environment.loop.post { [self] in
                    guard !environment.isStopped else { return }
                    follow(attempt.handleRenewal(reply.refreshError, tokens, at: .now))
                }
            }
        case .fail(let error): done(.failure(error))
        }
    }

    private func complete(_ result: Result<Value, IdentityError>) {
        guard !environment.isStopped else { return }
        switch result {
        case .success(let value): done(.success(value))
        case .failure(let error): follow(attempt.handleRefusal(error, tokens, at: .now))
        }
    }
}
