/// What can be next in a simulated world. Processes are named by their place and by which of their lives is meant: what was planned for
/// one that has died finds no receiver.
enum FleetEvent {
    /// A session's deadline may have come.
    case due(process: Int, life: Int, user: Int, plan: UInt64)
    /// The store's queue continues.
    case storeTurn(process: Int, life: Int)
    /// A call reaches the service.
    case reach(call: Int)
    /// What becomes of it reaches the process.
    case response(call: Int)
    /// The service is connected for a call that is prepared.
    case prepared(process: Int, life: Int, user: Int, operation: UInt64)
    /// The clocks are compared.
    case tick(process: Int, life: Int)
    /// The store is looked at beside all sessions' calls.
    case look(process: Int, life: Int)
    /// A client's request.
    case request
    /// The end of a variant's token, or a time at which a request wants it.
    case variantTurn(process: Int, life: Int, user: Int, variant: Int, plan: UInt64)
    /// A request for a variant has waited as long as it does.
    case variantWaitEnds(process: Int, life: Int, user: Int, variant: Int)
    /// A request has waited as long as it does.
    case waitEnds(process: Int, life: Int, user: Int)
    /// The account of a login was looked at.
    case claimed(process: Int, life: Int, user: Int, operation: UInt64)
    /// What an operator's link or deletion waits for has come.
    case accountReply(process: Int, life: Int, user: Int)
    /// The service is told again of sessions that have ended.
    case revocations(process: Int, life: Int)
    /// A process begins.
    case start(process: Int, plan: UInt64)
    case condition
    case incident(FleetIncident)
    case relief(FleetRelief)
    /// A session is led where it would seldom come by itself.
    case lead
    case step(FleetLead.Step, user: Int, here: Int)
    /// The program that renews the outside token renews it, or something happens to its readers.
    case feed
    /// For a while nothing goes wrong; at its end every session that can live must live.
    case holiday
    case audit

    /// The machine must be awake for it.
    var needsMachine: Bool {
        switch self {
        case .due, .storeTurn, .response, .prepared, .tick, .look, .request, .variantTurn, .variantWaitEnds, .waitEnds,
            .claimed,
            .accountReply, .revocations, .start, .audit, .relief, .lead, .step, .feed, .holiday:
            true
        default: false
        }
    }
}

/// What goes wrong, or is done, by chance.
enum FleetIncident: CaseIterable {
    case crash, power, wall, suspend, pause, disk, locks, account, operatorCall, upstream, accountChange, variant
    case drain

    /// How many of the plan's units lie between two of a kind.
    var unitsApart: Double {
        switch self {
        case .crash: 0.6
        case .power: 12
        case .wall: 8
        case .suspend: 6
        case .pause: 12
        case .disk: 8
        case .locks: 15
        case .account: 6
        case .operatorCall: 6
        case .upstream: 1.5
        case .accountChange: 1.5
        case .variant: 0.8
        case .drain: 1.5
        }
    }
}

/// The end of something that went wrong.
enum FleetRelief {
    case diskTakesAll
    case locksWork
    case serviceRecovers
    case wallIsRight
    case accountEnabled(user: Int)
    case credentialMended(user: Int)
    /// A file gets the next credential, whether or not the one in it has served.
    case credentialRenewed(user: Int)
    case operatorLogsIn(user: Int)
    case operatorRefreshes(user: Int)
    case sessionRevoked(user: Int)
    case processKilled(process: Int, life: Int)
    /// It is told to end, and its time for that has passed.
    case processDrains(process: Int, life: Int), drainTimeEnds(process: Int, life: Int)
    case operatorLogsOut(process: Int, life: Int, user: Int)
    case variantGiven(user: Int, variant: Int)
    case variantForced(process: Int, life: Int, user: Int, variant: Int)
    /// The service seems so to one process; nil: as to every process.
    case serviceSeems(FleetCondition?, process: Int)
}
