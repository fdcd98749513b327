import LanyardSettings

/// One simulated world: a machine with a store, one or two processes on it, their users, and the service that they belong to.
///
/// Everything in it follows from the seed.
package struct FleetPlan: Sendable {
    package struct Member: Sendable {
        /// Whether the configuration has a credential that needs no operator.
        package var hasCredential: Bool
        /// Each credential works for one login.
        package var isOneUse = false
        /// The service gives the user refresh tokens; otherwise each token is a login's.
        package var hasRefreshToken = true
        /// What routes ask for beside the plain access token: the first so many of `FleetVariant.all`.
        package var variants: [FleetVariant.Plan] = []
    }

    package var seed: UInt64
    /// Of access tokens.
    package var lifetime: Duration
    package var span: Duration
    /// What the service does.
    package var rotation: RefreshTokenRotation
    /// The configuration says `auto`.
    package let isAuto: Bool
    /// The configuration knows how long a `grace` service accepts the former refresh token.
    package let hasWindow: Bool
    package var members: [Member]
    package var processes: Int
    /// `login.offline`.
    package var isCachedStart: Bool
    /// The service says when refresh tokens end.
    package var tellsExpiry: Bool
    package var bug: PlantedBug?
    /// Sessions are led to what else comes to them too seldom: `FleetLead`; and a user is there whose token another program renews.
    package var isGuided: Bool
    /// Operators link and delete accounts, and some credentials work for one login.
    package let changesAccounts: Bool
    /// Routes ask for further access tokens of the users.
    package let hasVariants: Bool
    /// The configuration lets a refresh token be sent once more when nothing is left to lose.
    package let triesLast: Bool
    /// Processes end in order now and then.
    package private(set) var drains = false
    /// The client of the service connects before the intent is stored.
    var preparesCalls: Bool { seed % 4 != 0 }
    /// Prints what happens.
    package var isTraced = false

    /// The same world without its planted mistake.
    var sound: FleetPlan {
        var plan = self
        plan.bug = nil
        return plan
    }

    /// Its seed, and what the seed does not decide.
    var name: String { "\(seed) \(lifetime) \(span) \(isGuided) \(changesAccounts) \(hasVariants)" }

    /// A world by its seed.
    ///
    /// - Parameters:
    ///   - changesAccounts: nil: every second seed. The seed draws the rest as if it were false.
    ///   - hasVariants: the same.
    ///   - triesLast: the same.
    package init(
        seed: UInt64, lifetime: Duration, span: Duration, bug: PlantedBug? = nil, isGuided: Bool = false,
        changesAccounts: Bool? = nil, hasVariants: Bool? = nil, triesLast: Bool? = nil
    ) {
        var lastTryRandom = SplitMix64(seed &* 0x94d0_49bb_1331_11eb &+ 0x3d)
        let isLastTryDrawn = lastTryRandom.hits(0.5)
        self.triesLast = triesLast ?? isLastTryDrawn
        var variantRandom = SplitMix64(seed &* 0xb492_b66f_be98_f273 &+ 0x7a)
        let areVariantsDrawn = variantRandom.hits(0.5)
        self.hasVariants = hasVariants ?? areVariantsDrawn
        var accountRandom = SplitMix64(seed &* 0x9e37_79b9_7f4a_7c15 &+ 0x11f5)
        let isDrawn = accountRandom.hits(0.5)
        self.changesAccounts = changesAccounts ?? isDrawn
        var rotationRandom = SplitMix64(seed &* 0xd134_2543_de82_ef95 &+ 0x2b)
        isAuto = rotationRandom.hits(0.4)
        hasWindow = rotationRandom.hits(0.5)
        var random = SplitMix64(seed &* 0x2545_f491_4f6c_dd1d)
        self.seed = seed
        self.lifetime = lifetime
        self.span = span
        self.bug = bug
        self.isGuided = isGuided
        rotation = RefreshTokenRotation.allCases[random.below(3)]
        members = (0..<(1 + random.below(4))).map { _ in Member(hasCredential: false) }
        for place in members.indices { members[place].hasCredential = random.hits(0.6) }
        processes = random.hits(0.6) ? 2 : 1
        isCachedStart = random.hits(0.8)
        tellsExpiry = random.hits(0.5)
        if isGuided {
            // Every lead finds its user, and two processes.
            processes = 2
            members = [true, false, true, false].map { Member(hasCredential: $0) }
        }
        if self.changesAccounts { drawOneUse(&accountRandom) }
        if self.hasVariants { drawVariants(&variantRandom) }
        if self.hasVariants, !isGuided { drawEndings() }
    }

    /// With random numbers of their own: the worlds that do not have these are what they were.
    private mutating func drawEndings() {
        var random = SplitMix64(seed &* 0xa076_1d64_78bd_642f &+ 0x4e)
        drains = !changesAccounts && random.hits(0.5)
        for place in members.indices where members[place].hasCredential && !members[place].isOneUse {
            members[place].hasRefreshToken = random.hits(0.7)
        }
    }

    private mutating func drawOneUse(_ random: inout SplitMix64) {
        for place in members.indices { members[place].isOneUse = members[place].hasCredential && random.hits(0.5) }
    }

    private mutating func drawVariants(_ random: inout SplitMix64) {
        for place in members.indices {
            let count = place == 0 ? 1 + random.below(3) : random.below(4)
            members[place].variants = (0..<count).map { _ in FleetVariant.Plan(&random) }
        }
    }

    /// What the configuration says of refresh tokens.
    var refreshTokens: RefreshTokenSettings {
        var settings =
            isAuto
            ? RefreshTokenSettings(.auto)
            : RefreshTokenSettings(rotation, graceWindow: rotation == .grace && hasWindow ? FleetService.grace : nil)
        settings.lastTry = triesLast
        return settings
    }

    /// What days and hours of trouble are measured in: short lives do not make a service fail faster.
    var unit: Duration { max(lifetime, .seconds(90)) }
}
