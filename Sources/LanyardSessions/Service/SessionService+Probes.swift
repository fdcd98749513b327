import LanyardFoundations
import LanyardSessionInterface
import LanyardSettings

/// The end of an identity service's outage: one call a second finds it while requests want tokens, and its success releases the other
/// sessions of the identity (refresh.md 4).
extension SessionService {
    private var probePolicy: ClockPolicy { configuration.policy }

    /// A session's own call has its result, which the session has handled.
    func handleCallEnd(of runner: SessionRunner, _ result: Result<Grant, IdentityError>) {
        loop.assertIsCurrent()
        let identity = runner.managedUser.settings.identity
        let failure: IdentityError? =
            switch result {
            // A token that came too late to be used: the session tries again as after a failure.
            case .success where runner.coordinator.awaitsService(at: .now): runner.coordinator.context.lastError
            case .success: nil
            case .failure(let error): error
            }
        if let failure {
            var probe = probes[identity] ?? IdentityProbe()
            probe.recordFailure(failure, by: probePolicy, at: .now)
            probe.isArmed = true
            probes[identity] = probe
        } else {
            let hasFailed = probes.removeValue(forKey: identity) != nil
            if endSilence(of: identity) || hasFailed { release(identity, besides: runner) }
        }
        setProbeTimer()
    }

    /// A request may want a token of this user, whose service does not respond.
    func armProbe(for runner: SessionRunner) {
        guard runner.coordinator.wantsProbe(at: .now) else { return }
        let identity = runner.managedUser.settings.identity
        guard probes[identity]?.isArmed != true else { return }
        probes[identity, default: IdentityProbe()].isArmed = true
        setProbeTimer()
    }

    private func setProbeTimer() {
        let next = probes.values.filter(\.isArmed).map(\.nextAt).min() ?? .never
        probeTimer.set(at: next == .never ? .never : max(next, .now))
    }

    /// The time of a probe has come.
    func makeProbes() {
        loop.assertIsCurrent()
        guard !isStopped, !isDraining else { return }
        for (identity, probe) in probes where probe.isArmed {
            let eventContext = EventContext.now
            let all = runners.filter { $0.managedUser.settings.identity == identity }
            let wanting = all.filter { $0.coordinator.wantsProbe(at: eventContext.instant) }
            let inFlight = all.count { $0.coordinator.operation?.isAwaitingResult == true }
            var probe = probe
            let place = probe.next(of: wanting.count, inFlight: inFlight, by: probePolicy, at: eventContext)
            probes[identity] = probe
            if let place { wanting[place].handle(.probe) }
        }
        setProbeTimer()
    }

    /// The sessions for which requests wait go first.
    private func release(_ identity: String, besides other: SessionRunner) {
        let now = Instant.now
        let waiting = runners.filter {
            $0 !== other && $0.managedUser.settings.identity == identity
                && ($0.coordinator.awaitsService(at: now) || $0.coordinator.awaitsResponse)
        }
        let isWanting = { (runner: SessionRunner) in
            runner.coordinator.wantsProbe(at: now) || runner.coordinator.awaitsResponse
        }
        let wanting = waiting.filter(isWanting)
        let others = waiting.filter { !isWanting($0) }
        for (place, runner) in (wanting + others).enumerated() {
            runner.handle(
                .serviceReturned(after: IdentityProbe.releaseDelay(place, by: probePolicy, at: .now)))
        }
    }
}
