import LanyardFoundations
import LanyardSessionInterface
import LanyardSettings

/// Makes a `Grant` from a successful response of a token endpoint (RFC 6749 §5.1, refresh.md 1).
enum OAuthGrant {
    /// The lifetime in seconds of a token that states none.
    private static let lifetimeAssumed: Int64 = 300
    private static let lifetimeMin: Int64 = 2
    /// Ten years, in seconds. A longer lifetime means "no end" and must not overflow later sums.
    private static let lifetimeMax: Int64 = 315_360_000

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
        if let type = decoded.tokenType, type.lowercased() != "bearer", !isBearerByAnotherName(type) {
            return .failure(
                OAuthVerdict.malformed(
                    call, response.status,
                    "its token_type is \(shown(type, SecretEcho(of: secrets, and: response))), and Lanyard sends bearer tokens",
                    decoded, responsible: .operator))
        }
        let claims = JWTClaims(of: accessToken)
        let seconds = decoded.expiresIn ?? assumed.map { Int64($0.inSeconds) } ?? claims?.lifetime ?? lifetimeAssumed
        guard seconds >= lifetimeMin else { return fail("the access_token lives for less than \(lifetimeMin) s") }
        var grant = Grant(
            accessToken: accessToken, refreshToken: keepsRefreshToken ? decoded.refreshToken : nil, userID: nil,
            lifetime: .seconds(min(seconds, lifetimeMax)), refreshTokenExpiry: nil, serverDate: response.serverDate,
            requestStartedAt: response.requestStartedAt)
        grant.scopes = decoded.scopes
        // 0 is not always "never" (Keycloak). Without a number the server's own response decides.
        if grant.refreshToken != nil, let refreshSeconds = decoded.refreshExpiresIn, refreshSeconds > 0 {
            let start = response.requestStartedAt?.wall ?? .now
            grant.refreshTokenExpiry = start + .seconds(min(refreshSeconds, lifetimeMax))
        }
        return .success(grant)
    }

    /// Registered types (RFC 6749 §11.1), and one of an expired draft. They tell nothing of a secret.
    private static let knownTypes: Set<String> = ["n_a", "pop", "dpop", "mac"]

    private static func shown(_ type: String, _ echo: @autoclosure () -> SecretEcho) -> String {
        knownTypes.contains(type.lowercased()) || !echo().isIn(name: type) ? type : "another one"
    }

    /// What some servers send for a bearer token: Slack names the kind of account.
    private static func isBearerByAnotherName(_ type: String) -> Bool { ["user", "bot"].contains(type) }
}

extension JWTClaims {
    /// `exp − iat`, in seconds; nil: one of them is missing.
    fileprivate var lifetime: Int64? {
        guard let expiry, let issuedAt else { return nil }
        return expiry.clampedDifference(issuedAt)
    }
}
