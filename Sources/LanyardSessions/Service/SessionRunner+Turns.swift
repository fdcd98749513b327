import LanyardFoundations
import LanyardSessionInterface

/// Where a session stands in `CallTurns`.
enum CallTurn {
    case none
    /// The work begins the operation.
    case waiting(CallTurns<SessionRunner>.Ticket, operation: UInt64, work: () -> Void)
    case begun(CallTurns<SessionRunner>.Ticket, operation: UInt64)
}

/// The turn of a session: it begins a call when few others of its identity are in progress.
extension SessionRunner {
    /// Does what an operation begins with: now, or when it is its turn.
    func whenItsTurn(_ work: @escaping () -> Void) {
        guard let operation = coordinator.operation, let urgency, !coordinator.isDraining else { return work() }
        switch turn {
        case .begun(_, operation.number): return work()
        case .begun(let ticket, _), .waiting(let ticket, _, _): environment.turns.end(ticket)
        case .none: break
        }
        let ticket = environment.turns.ask(for: self, urgency)
        turn = .waiting(ticket, operation: operation.number, work: work)
        environment.turns.give()
    }

    /// Asks for the user's lock.
    func lock() {
        environment.loop.assertIsCurrent()
        environment.store.lock(name) { [weak self] in self?.send(.locked($0)) }
    }

    /// The operation begins.
    func beginTurn(_ ticket: CallTurns<SessionRunner>.Ticket) {
        environment.loop.assertIsCurrent()
        guard case .waiting(ticket, let operation, let work) = turn else { return environment.turns.end(ticket) }
        turn = .begun(ticket, operation: operation)
        work()
    }

    /// The service responds to no session of the identity: the session does not wait for its turn any more.
    func missTurn() {
        environment.loop.assertIsCurrent()
        guard case .waiting = turn else { return }
        turn = .none
        handle(.turnMissed)
    }

    /// Follows the operation after an event.
    func settleTurn() {
        let operation = coordinator.operation
        switch turn {
        case .none: return
        case .begun(let ticket, let number):
            guard operation?.number != number || operation?.isPausing == true else { return }
            turn = .none
            environment.turns.end(ticket)
            environment.turns.give()
        case .waiting(let ticket, let number, _):
            guard let operation, !coordinator.isDraining else {
                turn = .none
                environment.turns.end(ticket)
                environment.turns.give()
                // Nothing was asked of the store. Whatever else waits for the lock asks again.
                return handle(.locked(.busy))
            }
            if let urgency { environment.turns.raise(ticket, to: urgency) }
            guard operation.number != number else { return }
            // Another operation has taken its place, and waits for the same lock.
            turn = .waiting(ticket, operation: operation.number) { [self] in lock() }
        }
    }

    /// The runner has stopped.
    func leaveTurn() {
        switch turn {
        case .none: return
        case .waiting(let ticket, _, _), .begun(let ticket, _):
            turn = .none
            environment.turns.end(ticket)
            environment.turns.give()
        }
    }

    /// nil: the operation makes no call.
    private var urgency: CallTurns<SessionRunner>.Urgency? {
        guard let operation = coordinator.operation else { return nil }
        switch operation.purpose {
        case .closingIntent: return nil
        case .operatorLogin: return operation.obtained == nil ? .operatorCall : nil
        case .own where operation.call.cause == .asked: return .operatorCall
        case .own where coordinator.waiting.isTokenWanted: return .awaited
        case .own: return coordinator.session.tokens == nil && operation.call.kind == .login ? .login : .renewal
        }
    }
}
