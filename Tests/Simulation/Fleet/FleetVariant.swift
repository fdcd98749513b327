import LanyardFoundations
import LanyardSettings

/// The token of one variant in one process: what requests have got of it, and what the checks remember.
package struct FleetVariant {
    /// What a plan says of one variant of a user.
    package struct Plan: Sendable {
        /// When requests ask for it.
        package enum Traffic: Sendable {
            case always
            /// From time to time, for a while.
            case sometimes
            /// A request now and then.
            case seldom
        }

        package var traffic: Traffic
        /// Its tokens live so much longer than the plain one.
        package var stretch: Double

        init(_ random: inout SplitMix64) {
            traffic = random.pick([.always, .always, .sometimes, .sometimes, .seldom])
            stretch = random.pick([1, 1, 0.5, 2])
        }
    }

    /// What routes can ask for. The service's audience of a variant is its place, from 1.
    static let all = [
        TokenVariant(audience: "orders"), TokenVariant(resources: ["https://stock.example"]),
        TokenVariant(audience: "reports", scopes: ["read"]),
    ]

    /// The requests for a variant, in all processes together.
    struct Traffic {
        /// There is one at any time.
        var isSteady = false
        var changedAt = Instant.past

        func has(since instant: Instant) -> Bool { isSteady || changedAt > instant }
    }

    let index: UserIndex
    /// A route of the process's configuration asks for it.
    var isConfigured: Bool
    /// The call that was being prepared or made for it when a reload took it away: it is still made.
    var lastCall: UInt64?
    /// nil: none can be used.
    var latest: AccessToken?
    /// When the latest token was published first, and the one before, in real time.
    var issuedAt = Instant.past
    var formerIssuedAt = Instant.past
    /// The start of its mandatory zone, on the boot clock. A jump of the clocks, or the end of the session, brings it
    /// forward.
    var mandatoryFrom = Instant.past
    /// The highest generation of any token.
    var generation: UInt64 = 0
    /// What the request path counts, and when it was asked for it.
    var uses: UInt64 = 0
    var countedAt = Instant.past
    /// When a request has last carried the token, or wanted it.
    var wantedAt = Instant.past
    /// A response of an upstream comes after this instant to a request that has waited.
    var usedFrom: Instant?
    /// Requests wait for it.
    var isAwaited = false
    /// The latest fetch has brought no usable token.
    var hasFailed = false
    /// The response leaves it to the next refresh of the plain token, or to an operator, when it is fetched again.
    var isRefused = false
    /// The access token that this process has fetched last.
    var fetched: Secret?
    /// Tells the turn that is planned from those that are no longer meant.
    var plan: UInt64 = 0

    /// Its mandatory zone begins at this instant, or has begun before.
    mutating func bringMandatoryForward(to instant: Instant) { mandatoryFrom = min(mandatoryFrom, instant) }

    init(_ index: UserIndex, isConfigured: Bool) {
        self.index = index
        self.isConfigured = isConfigured
    }
}
