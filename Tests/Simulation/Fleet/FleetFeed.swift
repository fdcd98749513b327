import Lanyard

/// A user whose token somebody else renews, in one process: the real machine, told what is read.
final class FleetFeed {
    private var desk: SessionDesk
    /// What requests would be given.
    private(set) var served: AccessToken?
    /// What it has asked for beside that: a token that is only read takes no call, no lock and no store.
    private(set) var hasActed = false

    init(_ index: UserIndex) {
        desk = SessionDesk(SessionDesk.Setup(user: "fed", identity: "file", index: index, credential: nil))
    }

    /// Returns the edge that it took, if one.
    func take(_ event: Session.Event, at moment: SessionMoment) -> FleetReport.Edge? {
        let before = desk.session.state
        for act in desk.take(.session(event), at: moment) {
            switch act {
            case .publish(.token(let token)): served = token
            case .publish: served = nil
            case .note: break
            default: hasActed = true
            }
        }
        let after = desk.session.state
        return before == after ? nil : FleetReport.Edge(from: before, to: after)
    }
}
