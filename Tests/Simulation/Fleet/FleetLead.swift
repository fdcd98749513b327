import LanyardSessions

/// What leads a session over one edge between two states: for those edges that need two processes and an accident in
/// the right moment, so that no world comes to them often by itself.
///
/// What a lead does any operator may do, and any service: it ends a session, grants a token that lives for two seconds,
/// answers late, fails one process while it serves another; an operator logs in at the same time. It brings the accident about,
/// not its outcome: between its steps everything happens that happens in any world, and many a lead comes to nothing.
struct FleetLead {
    /// Which of the two processes.
    enum Place { case here, there }

    enum Step {
        /// How the service seems to this process; nil: as to every process.
        case condition(Place, FleetCondition?)
        case logIn(Place)
        case logOut(Place)
        /// An operator wants a new token.
        case refresh(Place)
        /// The service ends the session.
        case revoke
        /// The service's password is another from now on.
        case changePassword
        /// The credential's file gets the right password.
        case mend
    }

    /// Steps, each with the seconds until the next one.
    typealias Way = [(step: Step, rest: Double)]

    let edge: FleetReport.Edge
    /// Whether the user has a credential that needs no operator; nil: either.
    let needsCredential: Bool?
    /// From `valid` in both processes.
    let way: Way

    private init(_ from: SessionState, _ to: SessionState, needsCredential: Bool?, _ way: Way) {
        edge = FleetReport.Edge(from: from, to: to)
        self.needsCredential = needsCredential
        self.way = way
    }

    static let all = lateLogins + takeovers + mendedCredentials + [declaredDead]

    /// An operator's login is answered when its token has ended already.
    private static let lateLogins = [SessionState.loggedOut, .loggingIn, .valid, .loginRequired, .refused].map {
        state in
        FleetLead(
            state, .unreachable, needsCredential: needsCredential(state),
            way(to: state) + [(.condition(.here, .tardy), 0), (.logIn(.here), 32), (.condition(.here, nil), 0)])
    }

    /// Another process has stored a login whose token has ended when this one takes the session over.
    private static let takeovers = [SessionState.loggingIn, .stale, .loginRequired, .refused].map { state in
        FleetLead(
            state, .refreshing, needsCredential: needsCredential(state),
            way(to: state) + [
                (.condition(.there, .brief), 0), (.logIn(.there), 1), (.condition(.there, .down), 60),
                (.condition(.there, nil), 0), (.condition(.here, nil), 0),
            ])
    }

    /// A login with the wrong password is in progress when the file gets the right one: `FleetWorld.mayMendMeanwhile`.
    private static let mendedCredentials = [SessionState.refreshing, .stale, .unreachable].map { state in
        FleetLead(
            state, .loggingIn, needsCredential: true,
            way(to: state) + [
                (.changePassword, 0), (.condition(.here, nil), 0), (.refresh(.here), 40), (.mend, 5),
            ])
    }

    /// The service knows of no such application when this process asks, and tells the other that the session is dead.
    private static let declaredDead = FleetLead(
        .refused, .loginRequired, needsCredential: false,
        [
            (.condition(.here, .noApp), 0), (.refresh(.here), 2), (.condition(.here, nil), 0), (.revoke, 0),
            (.refresh(.there), 35),
        ])

    /// From `valid`.
    private static func way(to state: SessionState) -> Way {
        switch state {
        case .loggedOut: [(.logOut(.here), 1)]
        case .loginRequired: [(.revoke, 0), (.refresh(.here), 3)]
        case .refused: [(.changePassword, 0), (.refresh(.here), 3)]
        case .loggingIn: way(to: .refused) + [(.condition(.here, .down), 0), (.mend, 1)]
        // Its attempts lie some seconds apart then.
        case .stale: [(.condition(.here, .failing), 0), (.refresh(.here), 10)]
        case .unreachable:
            [(.condition(.here, .brief), 0), (.refresh(.here), 1), (.condition(.here, .failing), 5)]
        default: []
        }
    }

    private static func needsCredential(_ state: SessionState) -> Bool? {
        switch state {
        case .loginRequired: false
        case .refused, .loggingIn: true
        default: nil
        }
    }
}
