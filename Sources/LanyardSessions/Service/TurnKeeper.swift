import LanyardFoundations
import LanyardSessionInterface
import LanyardSettings

/// Gives the sessions of a service their turns. Belongs to the service's queue.
final class TurnKeeper {
    private unowned let environment: any RunnerEnvironment
    private let loop: EventLoop
    private var turns = CallTurns<SessionRunner>()
    /// While sessions wait.
    private lazy var timer = SessionTimer(on: loop) { [unowned self] in handleTimer() }

    init(environment: any RunnerEnvironment) {
        self.environment = environment
        loop = environment.loop
    }

    /// A session wants to begin a call. `give` tells it when.
    func ask(
        for runner: SessionRunner, _ kind: CallTurns<SessionRunner>.Kind, _ urgency: CallTurns<SessionRunner>.Urgency
    ) -> CallTurns<SessionRunner>.Ticket {
        loop.assertIsCurrent()
        return turns.ask(
            runner, of: runner.managedUser.settings.identity, kind, urgency,
            timeout: runner.coordinator.context.policy.attemptTimeout, at: loop.now)
    }

    /// A call that waits has become more urgent.
    func raise(_ ticket: CallTurns<SessionRunner>.Ticket, to urgency: CallTurns<SessionRunner>.Urgency) {
        loop.assertIsCurrent()
        turns.raise(ticket, to: urgency, at: loop.now)
    }

    /// The call has ended, or is not wanted any more.
    func end(_ ticket: CallTurns<SessionRunner>.Ticket) {
        loop.assertIsCurrent()
        turns.end(ticket, at: loop.now)
    }

    /// A call of the identity has ended. Before the session hears of it: the next ones must not begin in between.
    func record(_ result: Result<Grant, IdentityError>, of identity: String) {
        loop.assertIsCurrent()
        switch result {
        case .success: turns.record(.served, of: identity, at: loop.now)
        case .failure(let error):
            guard error.status != nil else { return }
            turns.record(error.pause.map { .asksToWait($0) } ?? .failed, of: identity, at: loop.now)
        }
        give()
    }

    /// Lets those begin whose turn it is.
    func give() {
        loop.assertIsCurrent()
        guard !environment.isStopped, !environment.isDraining else { return timer.set(at: .never) }
        while let next = turns.next(at: loop.now) { next.caller.beginTurn(next.ticket) }
        timer.set(at: turns.checkAt)
    }

    private func handleTimer() {
        guard !environment.isStopped, !environment.isDraining else { return }
        for runner in turns.removeStuck(at: loop.now) { runner.missTurn() }
        give()
    }

    /// The service has ended.
    func drop() {
        loop.assertIsCurrent()
        timer.drop()
    }
}
