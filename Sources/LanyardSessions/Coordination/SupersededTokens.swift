import LanyardFoundations
import LanyardSessionInterface
import LanyardSettings

/// Notices a service that ends an access token of a session when it issues another one: upstreams then refuse the token that was issued
/// before, each time (docs/reference/oauth-variants.md 4.2).
///
/// An upstream that refuses every token is no such case: it refuses the newest one as well, or has accepted none before.
struct SupersededTokens: Sendable {
    /// So many refusals in a row show it. One may have another cause.
    private static let refusalsMin = 2

    static let message =
        "the identity service ends an access token when it issues another one of the session, so the tokens of the routes end each "
        + "other: set access_tokens: single in the oauth2 section of the identity, and remove token from its routes, or give each route "
        + "a user of its own"

    /// The token that was issued last; nil: unknown.
    private var latest: TokenVariant?
    /// Of tokens behind which another one was issued.
    private var refusals = 0
    /// The latest refused token of each variant: it counts once.
    private var counted: [TokenVariant: Generation] = [:]
    /// Successful responses to requests with earlier tokens of a variant; without an entry: unknown.
    private var successesBefore: [TokenVariant: UInt64] = [:]
    /// The variant whose number was asked for after a refusal that may count.
    private var refused: TokenVariant?
    /// Since when it is known; nil: it is not.
    private(set) var since: WallTime?

    /// A token has come from the service. Its number of uses is asked for next.
    mutating func recordIssue(of variant: TokenVariant) {
        latest = variant
        successesBefore[variant] = nil
    }

    /// The tokens are those of another process.
    mutating func forgetIssue() {
        (latest, successesBefore) = (nil, [:])
    }

    /// An upstream has refused the present token of a variant.
    ///
    /// - Returns: whether it may count: `recordUses` decides.
    mutating func recordRefusal(of variant: TokenVariant, _ generation: Generation) -> Bool {
        guard let latest, counted[variant] != generation else { return false }
        counted[variant] = generation
        guard latest != variant else {
            refusals = 0
            return false
        }
        refused = variant
        return true
    }

    /// How often the tokens of a variant were used so far; nil: unknown. A refusal counts if an upstream had accepted that token.
    ///
    /// - Returns: whether the service is known from now on.
    mutating func recordUses(of variant: TokenVariant, _ uses: TokenUses?, at wall: WallTime) -> Bool {
        guard refused == variant else {
            if successesBefore[variant] == nil { successesBefore[variant] = uses?.successes }
            return false
        }
        refused = nil
        guard let before = successesBefore[variant], let uses, uses.successes > before else { return false }
        refusals += 1
        guard refusals >= Self.refusalsMin, since == nil else { return false }
        since = wall
        return true
    }
}
