import LanyardFoundations
import LanyardSessionInterface
import LanyardSettings

/// Operators' calls for access tokens. A call without a token waits as requests do, and is refused for the same reasons.
extension UserService {
    func showToken(_ callID: UserCallID, _ variant: TokenVariant?, _ runner: SessionRunner) {
        environment.loop.assertIsCurrent()
        guard let index = runner.coordinator.index(of: variant) else { return refuse(callID, runner) }
        let now = Instant.now
        switch runner.coordinator.issue(index, withOthers: variant == nil, at: now) {
        case .token(let tokens): later { self.deliver(callID, .success(.accessTokens(tokens))) }
        case .refused(let refusal):
            // Calls that come while the identity service is unreachable shorten the back-off, as requests do.
            if case .identityUnreachable = refusal { request(index, of: runner) }
            later { self.deliver(callID, .failure(.noToken(refusal))) }
        case .awaited:
            let user = runner.index
            let wait = TokenWait(
                for: index, until: now + runner.coordinator.context.settings.waitMax, on: environment.loop
            ) { [weak self] in self?.review(callID, user) }
            tokenWaits[callID] = wait
            environment.add(wait)
            wait.start()
            request(index, of: runner)
        }
    }

    /// Something was published, or the time has ended. A reload may have taken the user or the variant away.
    private func review(_ callID: UserCallID, _ user: UserIndex) {
        guard let wait = tokenWaits[callID], case .accessToken(_, let variant)? = pendingCalls[callID]?.call,
            let runner = runner(of: user, for: callID)
        else { return }
        guard let index = runner.coordinator.index(of: variant) else { return refuse(callID, runner) }
        let now = Instant.now
        switch runner.coordinator.issue(index, withOthers: variant == nil, at: now) {
        case .token(let tokens): deliver(callID, .success(.accessTokens(tokens)))
        case .refused(let refusal): deliver(callID, .failure(.noToken(refusal)))
        case .awaited:
            guard now >= wait.end else { return }
            let cause = runner.coordinator.context.lastError?.message
            deliver(
                callID, .failure(.noToken(.identityUnreachable(nextAttemptAt: now + .seconds(1), because: cause))))
        }
    }

    private func request(_ index: UserIndex, of runner: SessionRunner) {
        runner.handle(index == runner.index ? .session(.tokenNeeded) : .variant(index, .tokenNeeded))
    }

    private func refuse(_ callID: UserCallID, _ runner: SessionRunner) {
        let known = runner.coordinator.variantTexts
        later { self.deliver(callID, .failure(.noSuchToken(known: known))) }
    }

    /// The call has its reply.
    func endTokenWait(_ callID: UserCallID) {
        environment.loop.assertIsCurrent()
        guard let wait = tokenWaits.removeValue(forKey: callID) else { return }
        environment.remove(wait)
        wait.stop()
    }
}
