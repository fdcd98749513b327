import LanyardFoundations
import LanyardSessionInterface
import LanyardSessions

/// Calls whose refresh token is held back until the service is connected and the intent is stored.
extension FleetWorld {
    func prepare(_ process: FleetProcess, _ user: Int, _ secret: Secret, _ call: SessionCall) {
        checkFlight(process, user, call)
        let outcome = condition(of: process.number).outcome(isLogin: false, &random)
        switch outcome.fault {
        case .connectionRefused, .connectTimedOut:
            report.count(.preparedInVain)
            send(unsent(secret, call, outcome, process, user), process, isCall: true)
        case _ where plan.bug == .sentUnprepared: refresh(process, user, secret, call, outcome)
        default:
            process.sessions[user].prepared = (secret, call, outcome)
            if outcome.fault != nil { process.sessions[user].troubledAt = clocks.now }
            // A slow service is slow to accept the connection, too.
            heap.plan(
                .prepared(process: process.number, life: process.life, user: user, operation: call.number),
                at: clocks.now + min(outcome.respondsIn / 8, .seconds(5)))
        }
    }

    private func unsent(
        _ secret: Secret, _ call: SessionCall, _ outcome: FleetCondition.Outcome, _ process: FleetProcess, _ user: Int
    ) -> FleetCall {
        var unsent = FleetCall(process: process.number, life: process.life, user: user, call: call, outcome: outcome)
        unsent.token = SimulatedToken(secret)
        unsent.variant = variant(of: call)
        unsent.isUnsent = true
        return unsent
    }

    func sendPrepared(_ process: FleetProcess, _ user: Int, _ operation: UInt64) {
        guard let prepared = process.sessions[user].prepared, prepared.call.number == operation else {
            return accuse(.oldToken, "\(name(process, user)) sends call \(operation), which is not prepared")
        }
        process.sessions[user].prepared = nil
        if prepared.outcome.fault == .requestLost, operation % 2 == 0 {
            // The service has closed the connection while the intent was being stored.
            var outcome = prepared.outcome
            (outcome.reachesIn, outcome.verdict) = (nil, .transient(retryAfter: nil))
            report.count(.preparedInVain)
            return send(unsent(prepared.secret, prepared.call, outcome, process, user), process, isCall: true)
        }
        report.count(.preparedAndSent)
        refresh(process, user, prepared.secret, prepared.call, prepared.outcome)
    }

    func giveUp(_ process: FleetProcess, _ user: Int, _ operation: UInt64) {
        let session = process.sessions[user]
        report.count(.preparationGivenUp)
        if session.prepared?.call.number == operation { session.prepared = nil }
        guard let place = session.call, calls[place].isUnsent, calls[place].call?.number == operation else { return }
        calls[place].isGivenUp = true
        session.call = nil
    }

    /// A process ends.
    func countCutOff(of process: FleetProcess) {
        for session in process.sessions where session.prepared != nil { report.count(.preparationCutOff) }
    }
}
