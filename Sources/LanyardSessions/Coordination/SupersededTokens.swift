import LanyardFoundations
import LanyardSessionInterface
import LanyardSettings

/// Notices a service that ends an access token of a session when it issues another one: upstreams then refuse the token that was issued
/// before, each time (docs/reference/oauth.md 4.2).
///
/// An upstream that refuses every token refuses the newest one as well, which is no such case.
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
    /// Since when it is known; nil: it is not.
    private(set) var since: WallTime?

    /// A token has come from the service.
    mutating func recordIssue(of variant: TokenVariant) { latest = variant }

    /// The tokens are those of another process.
    mutating func forgetIssue() { latest = nil }

    /// An upstream has refused the present token of a variant.
    ///
    /// - Returns: whether the service is known from now on.
    mutating func recordRefusal(of variant: TokenVariant, _ generation: Generation, at wall: WallTime) -> Bool {
        guard let latest, counted[variant] != generation else { return false }
        counted[variant] = generation
        guard latest != variant else {
            refusals = 0
            return false
        }
        refusals += 1
        guard refusals >= Self.refusalsMin, since == nil else { return false }
        since = wall
        return true
    }
}
