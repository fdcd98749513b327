import LanyardFoundations
import LanyardSessionInterface
import LanyardSettings
import Logging

/// Operators' calls about accounts: as a user, or at an identity (app-services-accounts.md 4).
extension UserService {
    /// Calls at an identity that belong to no user.
    func manageAccount(_ callID: UserCallID, _ identity: String) {
        environment.loop.assertIsCurrent()
        guard case .manageAccount(_, let call)? = pendingCalls[callID]?.call,
            let accounts = environment.accounts(at: identity)
        else {
            return later { self.deliver(callID, .failure(.noAccounts)) }
        }
        accounts.perform(.emailPassword(call), token: nil) { [weak self] result in
            self?.later { [weak self] in
                self?.deliver(callID, result.map { .result($0) }.mapError(AccountAttempt.failure))
            }
        }
    }

    /// Calls as a user.
    func callAccount(_ callID: UserCallID, _ user: UserIndex) {
        environment.loop.assertIsCurrent()
        guard let call = pendingCalls[callID]?.call, let runner = runner(of: user, for: callID) else {
            return carryOut(registry.handle(.accountChangeEnded(callID)))
        }
        if case .accessToken(_, let variant) = call { return showToken(callID, variant, runner) }
        guard case .service(let service) = runner.managedUser.source, let accounts = service.accounts else {
            return end(callID, .failure(.noAccounts))
        }
        switch call {
        case .call(_, let call):
            perform(call, as: runner, at: accounts) { [unowned self] in
                end(callID, $0.map { .result($0) })
            }
        case .customData: customData(callID, runner, accounts)
        case .link(_, let credential): link(callID, credential, runner, accounts)
        case .deleteAccount: deleteAccount(callID, runner, accounts)
        default: break
        }
    }

    /// Ends a call that has not changed the user.
    private func end(_ callID: UserCallID, _ result: Result<UserOutcome, UserError>) {
        carryOut(registry.handle(.accountChangeEnded(callID)))
        later { self.deliver(callID, result) }
    }

    private func perform(
        _ call: AccountCall, as runner: SessionRunner, at accounts: any AccountService,
        _ done: @escaping (Result<Secret, UserError>) -> Void
    ) {
        AccountCallRunner(
            AccountAttempt(call.authorization), as: runner, in: environment,
            by: { token, reply in accounts.perform(call, token: token, reply: reply) }, done: done
        ).start()
    }

    // MARK: What an access token carries

    private func renew(
        _ runner: SessionRunner, _ done: @escaping @Sendable (Result<SessionTokens, UserError>) -> Void
    ) {
        runner.refreshNow { reply in
            if let error = reply.refreshError { return done(.failure(error)) }
            done(runner.coordinator.session.tokens.map { .success($0) } ?? .failure(.notLoggedIn))
        }
    }

    /// The service writes the current custom data into each new access token, and nowhere else.
    private func customData(_ callID: UserCallID, _ runner: SessionRunner, _ accounts: any AccountService) {
        renew(runner) { [unowned self] result in
            let data = result.flatMap { tokens in
                accounts.customData(in: tokens.access).mapError { UserError.identity($0) }
            }
            later { self.deliver(callID, data.map { .result($0) }) }
        }
    }

    // MARK: Links

    /// The link is one call with the access token. The new access token is then stored by an operation of the user's
    /// session, like the result of a refresh.
    private func link(
        _ callID: UserCallID, _ credential: LoginMethod<Secret>, _ runner: SessionRunner,
        _ accounts: any AccountService
    ) {
        let session = runner.coordinator.sessionID
        // Of several exchanges the last one has brought the token.
        let began = Guarded(ClockReading.now)
        let exchange: AccountCallRunner<Grant>.Exchange = { token, reply in
            began.withLock { $0 = .now }
            accounts.link(credential, accessToken: token, reply: reply)
        }
        AccountCallRunner(
            AccountAttempt(.accessToken, isLink: true), as: runner, in: environment, by: exchange
        ) { [unowned self] result in
            switch result {
            case .failure(let error): end(callID, .failure(error))
            case .success(let grant):
                if let error = Self.foreignAccount(grant, runner) { return end(callID, .failure(error)) }
                let start = grant.requestStartedAt ?? began.withLock { $0 }
                let wasAnonymous = runner.coordinator.provider == RegisteredUser.anonymous
                let obtained = ObtainedSession(
                    grant, startedAt: start.instant, startedAtWall: start.wall,
                    provider: wasAnonymous ? credential.provider : nil, continuedSession: session)
                // Whether or not the session takes the token, the account is linked.
                runner.adopt(obtained) { [unowned self] _ in
                    readIdentities(callID, runner, accounts)
                }
            }
        }.start()
    }

    private func readIdentities(
        _ callID: UserCallID, _ runner: SessionRunner, _ accounts: any AccountService
    ) {
        perform(.identities, as: runner, at: accounts) { [unowned self] result in
            end(callID, .success(.result(result.success ?? Self.unknownIdentities(of: runner))))
        }
    }

    /// The account is linked, but its identities could not be read.
    private static func unknownIdentities(of runner: SessionRunner) -> Secret {
        var text = SecretBuffer()
        text.append("{\"user_id\":")
        if let account = runner.coordinator.context.accountID {
            JSONText.write(account, into: &text)
        } else {
            text.append("null")
        }
        text.append(",\"identities\":null}")
        return text.seal()
    }

    /// A response to a link that names another account than the session's is not used.
    private static func foreignAccount(_ grant: Grant, _ runner: SessionRunner) -> UserError? {
        guard let named = grant.userID, let own = runner.coordinator.context.accountID, named != own else { return nil }
        let message = "the identity service's response to the link names another account; its token is not used"
        return .serviceOutcomeUnknown(IdentityError(.unknownOutcome, message: message))
    }

    // MARK: Deletion

    /// The store is marked first. A crash then leaves a user that is logged out, whatever the service has done.
    private func deleteAccount(
        _ callID: UserCallID, _ runner: SessionRunner, _ accounts: any AccountService
    ) {
        runner.beginDeletion { [unowned self] reply in
            switch reply {
            case .deletionBegun:
                later { [unowned self] in
                    perform(.deleteAccount, as: runner, at: accounts) { [unowned self] result in
                        handleDeleted(callID, runner, result)
                    }
                }
            case .storeFailing: end(callID, .failure(.storeFailing))
            case .loginInProgress: end(callID, .failure(.loginInProgress))
            case .stopping: end(callID, .failure(.stopping))
            default: end(callID, .failure(.notLoggedIn))
            }
        }
    }

    private func handleDeleted(_ callID: UserCallID, _ runner: SessionRunner, _ result: Result<Secret, UserError>) {
        switch result {
        case .success:
            runner.endDeletion(isDeleted: true)
            carryOut(registry.handle(.accountDeleted(callID)))
        case .failure(let error):
            runner.endDeletion(isDeleted: false)
            switch error {
            case .identity(let error), .serviceOutcomeUnknown(let error): end(callID, .failure(.notDeleted(error)))
            default: end(callID, .failure(error))
            }
        }
    }
}

extension Result {
    /// The value; nil for a failure.
    fileprivate var success: Success? { if case .success(let value) = self { value } else { nil } }
}
