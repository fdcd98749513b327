import LanyardFoundations
import LanyardSessionInterface
import Logging

/// A decision of a session for the log: one line each, with reason and next time.
package struct SessionLogEvent: Equatable, Sendable {
    /// How loud the line is.
    package enum Level: Sendable { case info, warning, error }

    /// The stable dotted names, without `session.`.
    package enum Event: String, Sendable, CaseIterable {
        case loginStarted = "login.started"
        case loginSucceeded = "login.succeeded"
        case loginFailed = "login.failed"
        case operatorLoginFailed = "login.given_up"
        case loginRequired = "login.required"
        case loginPutOff = "login.put_off"
        case refused = "credential.refused"
        case credentialDiffers = "credential.differs"
        case refreshSucceeded = "refresh.succeeded"
        case refreshFailed = "refresh.failed"
        case refreshForced = "refresh.forced"
        case refreshDenied = "refresh.denied"
        case adopted
        case restored
        case outcomeUnknown = "refresh.outcome_unknown"
        case lastTryAwaited = "refresh.last_try_awaited"
        case lastTry = "refresh.last_try"
        case waitingForLock = "lock.waiting"
        case lockFailed = "lock.failed"
        case storeFailing = "store.failing"
        case storeRecovered = "store.recovered"
        case overtaken = "store.overtaken"
        case logoutUnsaved = "store.logout_unsaved"
        case unsaved = "store.unsaved"
        case stopWaiting = "store.stop_waiting"
        case expiring = "refresh_token.expiring"
        case accountAging = "account.aging"
        case dead
        case expired
        case accountChanged = "account.changed"
        case skewed = "clock.skewed"
        case loggedOut = "logout"
        case late = "response.late"
        case tokenChanged = "token.changed"
        case tokenKept = "token.kept"
        case accountDeleted = "account.deleted"
        case deletionInterrupted = "account.deletion_interrupted"
        case accountTaken = "account.in_use"
        case accountShared = "account.shared"
        case storeOlder = "store.older"
        case foreignUser = "identity.conflict"
        case variantFetched = "variant.fetched"
        case variantFailed = "variant.failed"
        case variantRefused = "variant.refused"
        case scopesNarrowed = "scopes.narrowed"
        case tokensSuperseded = "tokens.superseded"
    }

    /// Why a forced refresh is denied.
    package enum Denial: String, Sendable { case cooldown, budget = "per_hour_max" }

    /// What happened.
    package var event: Event
    /// How loud the line is.
    package var level: Level
    /// Machine-readable.
    package var reason: String
    /// When something happens next by itself.
    package var nextAt: Instant?
    /// Why, if a call failed.
    package var error: IdentityError?
    /// Further metadata, by name.
    package var details: [String: String] = [:]
    /// Further metadata with numbers as values, by name.
    package var counts: [String: UInt64] = [:]
    /// How far the service's clock is ahead of this machine's, in seconds; nil: the event is about something else.
    package var skewSeconds: Int?

    package init(
        _ event: Event, _ level: Level = .info, reason: String, nextAt: Instant? = nil, error: IdentityError? = nil
    ) {
        self.event = event
        self.level = level
        self.reason = reason
        self.nextAt = nextAt
        self.error = error
    }

    /// A login has ended in another account, or in one that nothing names: that is common, and no reason for a warning.
    static func accountChanged(to account: SessionAccount, reason: String) -> SessionLogEvent {
        var logEvent = SessionLogEvent(.accountChanged, account.isUnknown ? .info : .warning, reason: reason)
        if account.isUnknown { logEvent.details["account"] = "unknown" }
        return logEvent
    }

    /// The message of the log line.
    package var message: String {
        switch event {
        case .loginStarted: "logging in"
        case .loginSucceeded: "logged in"
        case .loginFailed: "login failed, trying again"
        case .operatorLoginFailed: "the login that an operator asked for failed; the session is unchanged"
        case .loginRequired: "an operator must log in"
        case .refused where nextAt != nil:
            "the service refuses the client; the login is made a few times more, and at once when a file of it changes"
        case .loginPutOff:
            "the session of the login before has ended without a refresh, as the one before it; the next login waits"
        case .refused: "the credential is refused or unreadable; no further attempt until it changes"
        case .credentialDiffers:
            """
            the stored session came from another kind of login than the configured one, and continues; log the user out \
            and in to use the configured one
            """
        case .refreshSucceeded: "access token refreshed"
        case .refreshFailed: "refresh failed, trying again"
        case .refreshForced: "an upstream refused the token, refreshing it"
        case .refreshDenied: "an upstream refused the token, but no refresh is allowed yet"
        case .adopted: "another process has renewed the session; its token is taken over"
        case .restored: "the stored session continues"
        case .outcomeUnknown:
            "the outcome of the last refresh is unknown, and the same refresh token is not sent again now"
        case .lastTryAwaited:
            """
            the access tokens serve to their end; then the refresh token whose outcome is unknown is sent once more, which may \
            fail; log in before that to be safe
            """
        case .lastTry:
            "every access token has ended: the refresh token whose outcome is unknown is sent once more, for the last time"
        case .waitingForLock: "another process is about to renew this session"
        case .lockFailed: "the user's lock cannot be taken; continuing without it"
        case .storeFailing: "the store cannot be used; the session continues in memory, and storing is tried again"
        case .storeRecovered: "the store works again, and holds everything"
        case .overtaken: "another process has changed this user in between; its change takes precedence"
        case .logoutUnsaved:
            "the end of the session is not stored, and a restart would restore the session; storing it is tried again"
        case .unsaved: "the process ends, and the store does not hold this user's newest state"
        case .stopWaiting:
            """
            only this process has the session's newest refresh token: the stop waits for the store until shutdown.drain_max, \
            and storing is tried again
            """
        case .expiring: "the refresh token expires soon"
        case .accountAging: "an anonymous account is deleted 90 days after it was made"
        case .dead: "the refresh token is dead"
        case .expired: "the access token has expired and there is no new one"
        case .accountChanged where details["account"] == "unknown":
            "nothing names the account that the login ended in, so it counts as another one than before"
        case .accountChanged: "the login ended in another account than before"
        case .skewed:
            "the service's clock is \(abs(skewSeconds ?? 0)) s \((skewSeconds ?? 0) < 0 ? "behind" : "ahead of") this machine's"
        case .loggedOut: "logged out"
        case .late: "a response came too late and was dropped"
        case .tokenChanged: "token read"
        case .tokenKept:
            "the file of a static token is empty, cut or missing, as while it is written; its former content serves for a while"
        case .accountDeleted: "an operator has deleted the account at the service"
        case .deletionInterrupted:
            """
            Lanyard ended while an account was being deleted, and whether the service has deleted it is unknown; the user \
            stays logged out; log in and delete it again, or remove the user
            """
        case .accountTaken:
            "another process has logged this user in to the account of another user; it is not taken over"
        case .accountShared:
            """
            two users of this device had sessions of one account: this user's session ends, the other one continues; to give \
            this user the account, log the other one out first
            """
        case .storeOlder:
            "an older store has replaced a newer one; the newer session is kept and written again"
        case .variantFetched: "the access token for a route or broker was fetched"
        case .variantFailed: "the access token for a route or broker could not be fetched, trying again"
        case .variantRefused:
            "the service does not give the access token that a route asks for; the session and its other tokens continue"
        case .tokensSuperseded: "the access tokens of the user's routes end each other at the service"
        case .scopesNarrowed:
            "the service has renewed the session with fewer scopes than its login had granted"
        case .foreignUser where reason == "displaced":
            "another process stores a user of this name for another identity; this user is not stored any more"
        case .foreignUser: "the stored user of this name belongs to another identity, and is not restored"
        }
    }

    /// Who must act, of an event with an error or without a session; nil: the event says nothing of that.
    func action(canLogIn: Bool) -> ResponsibleParty? {
        if event == .loginRequired { return .user }
        return event == .scopesNarrowed ? .operator : error?.action(canLogIn: canLogIn)
    }

    /// The event's full name.
    package var name: String { event.rawValue.hasPrefix("store.") ? event.rawValue : "session." + event.rawValue }
}

/// Writes session log events: one line each, with event, reason, state and the next time (architecture-control.md 7.3).
enum SessionLog {
    static func write(
        _ logEvent: SessionLogEvent, state: SessionState, generation: Generation, canLogIn: Bool,
        at eventContext: EventContext, to logger: Logger
    ) {
        var metadata: Logger.Metadata = [
            "event": .string(logEvent.name), "reason": .string(logEvent.reason), "state": .string(state.rawValue),
            "generation": .stringConvertible(generation.number),
        ]
        if let next = logEvent.nextAt, let wall = wall(of: next, eventContext) {
            metadata["next_at"] = .string(Timestamp.text(wall))
        }
        for (name, value) in logEvent.details { metadata[name] = .string(value) }
        for (name, value) in logEvent.counts { metadata[name] = .stringConvertible(value) }
        if let seconds = logEvent.skewSeconds { metadata["skew_seconds"] = .stringConvertible(seconds) }
        describe(logEvent.error, in: &metadata)
        if let action = logEvent.action(canLogIn: canLogIn) { metadata["action"] = .string(action.rawValue) }
        logger.log(level: logEvent.level.loggerLevel, "\(logEvent.message)", metadata: metadata)
    }

    /// The wall clock's time at `instant`; nil for never.
    static func wall(of instant: Instant, _ eventContext: EventContext) -> WallTime? {
        instant == .never ? nil : eventContext.wall + (instant - eventContext.instant)
    }

    private static func describe(_ error: IdentityError?, in metadata: inout Logger.Metadata) {
        guard let error else { return }
        metadata["error"] = .string(error.message)
        if let status = error.status { metadata["status"] = .stringConvertible(status) }
        if let code = error.code { metadata["error_code"] = .string(code) }
        if case .transient(let wait?) = error.verdict {
            metadata["retry_after_seconds"] = .stringConvertible(Int(wait.inSeconds.rounded(.up)))
        }
    }
}

extension SessionLogEvent.Level {
    fileprivate var loggerLevel: Logger.Level {
        switch self {
        case .info: .info
        case .warning: .warning
        case .error: .error
        }
    }
}
