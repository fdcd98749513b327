import LanyardFoundations
import LanyardSessionInterface
import LanyardSessions

/// One user's session in one process: the real machine, and what the world must remember around it.
final class FleetSession {
    private(set) var coordinator: SessionCoordinator
    /// What is asked of the coordinator most often, as of its latest event: to ask a large value in a class means to copy it.
    private(set) var glance: Glance

    struct Glance {
        var state: SessionState
        var due: Instant
        /// What the store is known to hold.
        var base: SessionVersion
        /// Its token serves to its end, and no call follows.
        var makesNoCall: Bool

        init(_ coordinator: inout SessionCoordinator) {
            state = coordinator.session.state
            due = coordinator.due
            base = coordinator.base
            if case .valid(_, .never) = coordinator.session { makesNoCall = true } else { makesNoCall = false }
        }
    }

    /// The tickets of operators' calls without a reply.
    var replies = OperatorReplies<UInt64>()

    /// - Parameter ticket: of the operator's call that the event is; nil: no caller waits for a reply.
    func handle(
        _ event: SessionCoordinator.Event, _ ticket: UInt64?, at eventContext: EventContext
    ) -> [SessionCoordinator.Action] {
        let actions = coordinator.handle(event, at: eventContext)
        if let ticket, let call = event.operatorCall { replies.add(ticket, to: call, handledBy: actions) }
        let before = glance.state
        glance = Glance(&coordinator)
        // Without a token Retry-After is honoured for at most 30 s (architecture-control.md 5.3).
        if before.isAuthenticated, !glance.state.isAuthenticated {
            notBefore = min(notBefore, eventContext.instant + .seconds(30))
        }
        isRearmed = glance.state == .loggingIn && (isRearmed || before == .refused)
        return actions
    }

    /// Tells the deadline that is planned from those that are no longer meant.
    var plan: UInt64 = 0
    var plannedAt = Instant.never
    /// The service has asked not to be called before then, on the boot clock.
    var notBefore = Instant.past
    /// How often the deadline came at one and the same instant.
    var spin = (at: Instant.past, times: 0)
    /// The lock could not be had for a reason other than another's having it: only the process's own single flight protects the call.
    var isLockless = false
    /// The call whose response it waits for.
    var call: Int?
    /// When that comes.
    var responseAt = Instant.past
    /// The call that is prepared, and its result once it is sent.
    var prepared: (secret: Secret, call: SessionCall, outcome: FleetCondition.Outcome)?
    /// Another process had the user's lock when this one wanted it last.
    var isLockBusy = false
    /// The refresh token that this process was given last.
    var newest: SimulatedToken?
    /// Calls that were answered while nothing of that is stored yet: a crash makes them unanswered again.
    var unsettled = 0
    /// An operator's call led to the next call.
    var isAsked = false
    /// One did to the latest call.
    var wasAsked = false
    /// A login takes the place of what was refused, whatever the store holds.
    private(set) var isRearmed = false
    /// What the response to the latest login says of the file's content that it sent; nil: nothing.
    var latestOutcome: FleetMember.CredentialOutcome?
    /// What this process knows of a content of the file.
    var recorded: FleetMember.CredentialRecord?
    /// An operator has logged in or out while that call was in progress.
    var wasLeft = false

    /// What routes ask for beside the plain token.
    var variants: [FleetVariant] = []
    /// When something has last gone wrong for this user here, in real time: a call, a state, a lock.
    var troubledAt = Instant.past
    /// The latest call was for a variant.
    var wasFetch = false
    /// The service's latest wish for a pause, on the boot clock.
    var retryAfter = (at: Instant.past, delay: Duration.zero)

    // For planted bugs.
    /// What the store was last known to hold.
    var known: StoredUser?
    /// The token that was published last.
    var latest: AccessToken?
    var failedSave = false

    init(_ coordinator: SessionCoordinator) {
        var coordinator = coordinator
        glance = Glance(&coordinator)
        self.coordinator = coordinator
    }

    /// Until then the service has said to this process that it is gone, which is honoured in full.
    var goneUntil = Instant.past

    /// The service's Retry-After: honoured up to the mandatory zone, then at most 30 s (architecture-control.md 5.3).
    func delay(by after: Duration, at now: Instant) {
        retryAfter = (now, after)
        let zone = coordinator.session.tokens?.mandatoryFrom ?? .past
        notBefore = now < zone ? min(now + after, zone) : now + min(after, .seconds(30))
    }

    /// A fetch has lost the refresh token while no other call is made. Its variant has no token, so the login waits for at most 30 s.
    func noteLoss(at now: Instant) {
        guard let tokens = coordinator.session.tokens, tokens.refresh == nil, coordinator.session.call == nil else {
            return
        }
        notBefore = min(notBefore, now + .seconds(30))
    }
}
