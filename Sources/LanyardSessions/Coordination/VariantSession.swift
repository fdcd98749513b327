import LanyardFoundations
import LanyardSessionInterface
import LanyardSettings

/// The access token of one variant (docs/reference/oauth-variants.md 4.2). Its state machine is that of a session whose every renewal is a
/// login. `SessionCoordinator` makes each of these logins a fetch in the lane of the user's session.
struct VariantSession: Sendable {
    /// Whether a token is renewed when that is due.
    enum Renewal: Equatable, Sendable {
        /// At the scheduled instant, if the token was used.
        case scheduled
        /// The number of its uses was asked for.
        case counting
        /// It was not used until then. It is looked at once more at the start of the mandatory zone.
        case postponed
        /// It was not used. The next request that needs it has it fetched.
        case onDemand
    }

    /// What is known of the use of the present token.
    struct Use: Sendable {
        /// The routes' uses when the token came; nil: unknown.
        var atIssue: UInt64?
        /// `atIssue` was asked for.
        var awaitsCount = false
        /// A request has waited for the token, or an upstream has refused it.
        var isDemanded = false

        func hasGrown(to count: UInt64?) -> Bool { isDemanded || atIssue == nil || count == nil || count != atIssue }
    }

    /// Fetches in a row without a response, each of which has cost the session.
    struct LostFetches: Sendable {
        var count = 0
        /// The next fetch is not made before; `past`: it may be made.
        var heldUntil = Instant.past
    }

    private(set) var named: NamedVariant
    /// The index that requests with this token have.
    let index: UserIndex
    var session = Session.loggedOut(.loggingIn)
    var context: SessionContext
    /// The fetch that waits for the lane.
    var waiting: SessionCall?
    var renewal = Renewal.scheduled
    var use = Use()
    /// Why the service does not give the token; nil: it has not refused it.
    var refusal: SessionReason?
    /// Why it is not fetched until the configuration or an operator's login changes; nil: it may be fetched.
    var block: VariantBlock?
    /// They outlive the sessions that they have cost.
    var lostFetches = LostFetches()

    /// - Parameter generation: of the latest token that this process has published for the index.
    init(_ named: NamedVariant, _ index: UserIndex, _ settings: RefreshSettings, generation: Generation) {
        self.named = named
        self.index = index
        context = SessionContext(user: index, settings: settings, hasCredential: true)
        context.generation = generation
        context.renewsOnlyUsed = true
    }

    /// The same under the name of another route.
    func renamed(to named: NamedVariant) -> VariantSession {
        var variant = self
        variant.named = named
        return variant
    }

    /// When to look at it next, or `.never`.
    var due: Instant {
        if isHeld { return block == nil ? lostFetches.heldUntil : .never }
        guard case .valid(let tokens, _) = session else { return session.due(context) }
        switch renewal {
        case .scheduled: return session.due(context)
        case .postponed: return tokens.mandatoryFrom
        case .counting, .onDemand: return .never
        }
    }

    /// It has no token, and its fetch waits after lost ones, or is not made.
    var isHeld: Bool { session.state == .loggedOut && (block != nil || lostFetches.heldUntil != .past) }

    /// A fetch without a response has cost the session. The first one is repeated at once, the others after 15 s to 5 minutes: each
    /// costs a login.
    mutating func recordLostFetch(_ error: IdentityError, at eventContext: EventContext) {
        context.lastError = error
        lostFetches.count += 1
        guard lostFetches.count > 1 else { return }
        let delay = context.policy.unusableLoginBackoff.delay(
            after: lostFetches.count - 1, chance: eventContext.chance)
        lostFetches.heldUntil = eventContext.instant + delay
    }

    /// What the shards are told while it is held.
    var heldAvailability: AccessToken.Availability {
        if let block { return .none(.variantRefused(because: subject + block.message)) }
        return .none(
            .identityUnreachable(
                nextAttemptAt: lostFetches.heldUntil, because: context.lastError?.message,
                action: context.lastError?.action(canLogIn: true) ?? .nobody))
    }

    /// The user's session has none, or another one: nothing of this one is served any more. Nothing is published.
    mutating func end(at eventContext: EventContext) {
        _ = session.handle(.ended(reason: "session"), at: eventContext, &context)
        (waiting, refusal, renewal, use) = (nil, nil, .scheduled, Use())
    }

    /// The token has ended, and no renewal of it has begun.
    func hasEnded(at now: Instant) -> Bool {
        guard case .valid(let tokens, _) = session else { return false }
        return !tokens.isUsable(at: now)
    }

    /// What the shards are told. Without a usable token, a refused variant waits for an operator.
    func published(_ availability: AccessToken.Availability) -> AccessToken.Availability {
        guard let refusal, Self.isRefusable(availability), let error = context.lastError else {
            return availability
        }
        let action = refusal.action(latest: error, canLogIn: true)
        return .none(.variantRefused(because: subject + error.message, action: action))
    }

    /// What the problem of a refusal is about: the first route or broker that asks for the token, and what it asks for.
    private var subject: String {
        let article = named.name.contains("[") ? "" : "the "
        return "token of \(article)\(NamedVariant.owner(named.name)) (\(named.variant.text)): "
    }

    private static func isRefusable(_ availability: AccessToken.Availability) -> Bool {
        switch availability {
        case .none(.identityUnreachable), .none(.clientRefused), .none(.credentialRefused): true
        case .token, .pending, .none: false
        }
    }

    /// Why the service does not give the token, by an error of its fetch; nil: it may give it later.
    static func refusal(by error: IdentityError) -> SessionReason? {
        // Nothing can fetch it before a login: there is neither a refresh token nor a credential, and none was refused.
        if error.verdict == .credentialUnavailable, error.responsible == .user { return .variantRefused }
        guard error.verdict == .clientRefused else { return nil }
        return error.code == IdentityError.audienceMismatch ? .audienceMismatch : .variantRefused
    }

    /// The reason of the variant's readiness. A token that is still served goes before its refused renewal.
    func reason(at now: Instant) -> SessionReason {
        if block != nil { return .variantRefused }
        if isHeld { return .identityUnreachable }
        return session.tokens?.isUsable(at: now) == true ? session.reason : refusal ?? session.reason
    }
}
