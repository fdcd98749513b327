import LanyardFoundations
import LanyardSessionInterface
import LanyardSettings

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
        guard let operation = coordinator.operation, let urgency, !coordinator.isDraining, coordinator.deletion == nil
        else {
            return work()
        }
        switch turn {
        case .begun(_, operation.number): return work()
        case .begun(let ticket, _), .waiting(let ticket, _, _): environment.turns.end(ticket)
        case .none: break
        }
        let kind: CallTurns<SessionRunner>.Kind = operation.call.kind == .login ? .login : .refresh
        let ticket = environment.turns.ask(for: self, kind, urgency)
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
            endTurn(ticket)
        case .waiting(let ticket, let number, let work):
            guard let operation, !coordinator.isDraining else {
                endTurn(ticket)
                // Nothing was asked of the store. Whatever else waits for the lock asks again.
                return handle(.locked(.busy))
            }
            // Another operation has taken its place, and waits for the same lock.
            let work = operation.number == number ? work : { [self] in lock() }
            guard let urgency, coordinator.deletion == nil else {
                endTurn(ticket)
                return work()
            }
            turn = .waiting(ticket, operation: operation.number, work: work)
            environment.turns.raise(ticket, to: urgency)
            environment.turns.give()
        }
    }

    private func endTurn(_ ticket: CallTurns<SessionRunner>.Ticket) {
        turn = .none
        environment.turns.end(ticket)
        environment.turns.give()
    }

    /// The runner has stopped.
    func leaveTurn() {
        switch turn {
        case .none: return
        case .waiting(let ticket, _, _), .begun(let ticket, _): endTurn(ticket)
        }
    }

    /// nil: the operation makes no call.
    private var urgency: CallTurns<SessionRunner>.Urgency? {
        guard let operation = coordinator.operation, operation.purpose != .closingIntent, operation.obtained == nil
        else { return nil }
        let waiting = coordinator.waiting
        // An operator waits for this call, or for the one behind it.
        guard operation.purpose == .own, operation.call.cause != .asked, !waiting.awaitsRefresh, waiting.login == nil
        else { return .operatorCall }
        // Requests wait for a token, or for another one than the upstream has refused.
        let isDemanded = coordinator.variants.contains {
            $0.use.isDemanded && $0.named.variant == operation.call.variant
        }
        if waiting.isTokenWanted || operation.call.cause == .forced || isDemanded { return .awaited }
        return coordinator.session.tokens == nil && operation.call.kind == .login ? .login : .renewal
    }
}
