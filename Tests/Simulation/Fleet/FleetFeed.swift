import LanyardFoundations
import LanyardSessions

/// A user whose token another program renews, in one process: the real machine, told what is read.
final class FleetFeed {
    private var coordinator: SessionCoordinator
    /// What requests would be given.
    private(set) var served: AccessToken?
    /// What it has asked for beside that: a token that is only read takes no call, no lock and no store.
    private(set) var hasActed = false

    init(_ index: UserIndex) {
        coordinator = SessionCoordinator(
            SessionCoordinator.Setup(user: "fed", identity: "file", index: index, credential: nil))
    }

    /// Returns the edge that it took, if one.
    func handle(_ event: Session.Event, at eventContext: EventContext) -> FleetReport.Edge? {
        let before = coordinator.session.state
        for action in coordinator.handle(.session(event), at: eventContext) {
            switch action {
            case .publish(.token(let token)): served = token
            case .publish: served = nil
            // All tokens of the file are one account's, which asks nothing of anybody.
            case .logEvent, .publishAccount: break
            default: hasActed = true
            }
        }
        let after = coordinator.session.state
        return before == after ? nil : FleetReport.Edge(from: before, to: after)
    }
}
