import LanyardFoundations
import LanyardSessionInterface
import LanyardSettings

/// Makes a `Grant` from a successful response of a token endpoint (RFC 6749 §5.1, refresh.md 1).
enum OAuthGrant {
    /// Ten years, in seconds, of a refresh token. A longer lifetime means "no end" and must not overflow later sums.
    private static let refreshLifetimeMax: Int64 = 315_360_000

    /// - Parameters:
    ///   - keepsRefreshToken: false for a grant whose renewal is another grant (RFC 6749 §4.4.3): a refresh token that comes along is
    ///     ignored.
    ///   - lifetime: of a token that states none, as it is configured.
    ///   - secrets: what the call has sent.
    static func make(
        _ call: OAuthVerdict.Call, _ response: CurlResponse, keepsRefreshToken: Bool, lifetime assumed: Duration?,
        profile: OAuthProfile, without secrets: [Secret] = []
    ) -> Result<Grant, IdentityError> {
        let decoded = response.body.withBytes { OAuthResponse($0, profile: profile, sent: secrets) }
        let fail = { (reason: String) -> Result<Grant, IdentityError> in
            .failure(OAuthVerdict.malformed(call, response.status, reason, decoded, isSent: !response.isEarly))
        }
        if let defect = decoded.defect { return fail(defect) }
        guard let accessToken = decoded.accessToken else { return fail("there is no access_token") }
        if let type = decoded.tokenType, !isBearer(type) {
            return .failure(
                OAuthVerdict.malformed(
                    call, response.status,
                    "its token_type is \(shown(type, SecretEcho(of: secrets, and: response))), and Lanyard sends bearer tokens",
                    decoded, responsible: .operator))
        }
        let seconds = TokenLifetime.seconds(
            stated: decoded.expiresIn, configured: assumed.map { Int64($0.inSeconds) },
            claims: JWTClaims(of: accessToken), date: response.serverDate)
        guard seconds >= TokenLifetime.minimum else {
            return fail("the access_token lives for less than \(TokenLifetime.minimum) s")
        }
        var grant = Grant(
            accessToken: accessToken, refreshToken: keepsRefreshToken ? decoded.refreshToken : nil, userID: nil,
            lifetime: .seconds(seconds), refreshTokenExpiry: nil, serverDate: response.serverDate,
            requestStartedAt: response.requestStartedAt)
        grant.scopes = decoded.scopes
        // 0 is not always "never" (Keycloak). Without a number the server's own response decides.
        if grant.refreshToken != nil, let refreshSeconds = decoded.refreshExpiresIn, refreshSeconds > 0 {
            let start = response.requestStartedAt?.wall ?? .now
            grant.refreshTokenExpiry = start + .seconds(min(refreshSeconds, refreshLifetimeMax))
        }
        return .success(grant)
    }

    /// Registered types (RFC 6749 §11.1), and one of an expired draft. They tell nothing of a secret.
    private static let knownTypes: Set<String> = ["n_a", "pop", "dpop", "mac"]

    private static func shown(_ type: String, _ echo: @autoclosure () -> SecretEcho) -> String {
        knownTypes.contains(type.lowercased()) || !echo().isIn(name: type) ? type : "another one"
    }

    /// In any case of letters (RFC 6749 §5.1). By other names: of Apigee, and of servers that name the grant.
    private static let bearerTypes: Set<String> = ["bearer", "bearertoken", "jwt-bearer"]

    /// The type is that of a bearer token. Slack names the kind of account in its place.
    private static func isBearer(_ type: String) -> Bool {
        bearerTypes.contains(type.lowercased()) || ["user", "bot"].contains(type)
    }
}
