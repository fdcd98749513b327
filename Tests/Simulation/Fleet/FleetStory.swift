import LanyardFoundations
import LanyardSessionInterface
import LanyardSessions
import LanyardSettings

/// Events and acts in words, for a developer who looks into a failure; no secret among them but those that the simulated service has made.
enum FleetStory {
    static func event(_ event: SessionCoordinator.Event) -> String {
        switch event {
        case .begin(let user, _): "begin(\(user.map(stored) ?? "unknown"))"
        case .committed(.success(.stored(let user))): "committed(stored \(user.map(stored) ?? "-"))"
        case .committed(.success(.storedEnding(let user, let ended))):
            "committed(stored \(user.map(stored) ?? "-"), ended \(ended.map { token($0.token) }.joined(separator: " ")))"
        case .committed(.success(.overtaken(let user))): "committed(overtaken \(user.map(stored) ?? "-"))"
        case .committed(.success(.inUse(let other))): "committed(in use by \(other))"
        case .committed(.failure(let fault)): "committed(failure \(fault.kind))"
        case .read(.success(let user), _): "read(\(user.map(stored) ?? "unknown"))"
        case .callCompleted(.success(let grant), let call): "granted(\(token(grant.refreshToken)) to \(call.number))"
        case .callCompleted(.failure(let fault), let call): "failed(\(fault.verdict) to \(call.number))"
        case .storeSnapshot(let user): "seen(\(user.map(stored) ?? "unknown"))"
        case .login: "login"
        case .begun(.attempted(.begun(_, let user, _), _), let number):
            "begun(\(number): \(user.map(stored) ?? "unknown"))"
        case .variant(let index, let event): "variant \(index.number) \(event)"
        default: "\(event)"
        }
    }

    static func action(_ action: SessionCoordinator.Action) -> String {
        switch action {
        case .commit(let change): "commit \(CrashPoint.Work(change))"
        case .login(_, _, let call): "login \(call.number) \(call.cause) \(call.variant.text)"
        case .refresh(let secret, let call):
            "refresh \(call.number) \(call.cause) \(call.variant.text) \(token(secret))"
        case .publish(.token(let token)): "publish \(token.generation)"
        case .publishVariant(.token(let token), let index): "publish \(token.generation) of variant \(index.number)"
        case .publishVariant(let availability, let index): "publish \(availability) of variant \(index.number)"
        case .countUses(let index): "count uses of \(index.number)"
        case .begin(let change, let number): "begin \(number) \(CrashPoint.Work(change))"
        case .logEvent(let logEvent): "note \(logEvent.event) \(logEvent.reason)"
        case .revoke(let revocation): "revoke \(token(revocation.token))"
        case .completeTermination(let revocations, _, _):
            "revoke \(revocations.map { token($0.token) }.joined(separator: " "))"
        case .claim: "claim"
        default: "\(action)"
        }
    }

    static func stored(_ user: StoredUser) -> String {
        let intent = user.intent.map { " intent \($0.kind) \($0.tries)" } ?? ""
        let refresh = user.session.map { token($0.refresh) } ?? "no session"
        return
            "g\(user.generation) \(refresh)\(intent)\(user.isLoggedOut ? " out" : "")\(user.refused == nil ? "" : " refused")"
    }

    private static func token(_ secret: Secret?) -> String {
        guard let secret else { return "-" }
        let token = SimulatedToken(secret)
        return "R\(token.session).\(token.value)"
    }
}
