import LanyardFoundations
import LanyardSessionInterface

/// Makes a `Grant` from a successful response (app-services.md 2.3, app-services.md 3.1, refresh.md 1).
enum AppServicesGrant {
    /// - Parameter secrets: what the request carried. An `error_code` with a piece of one is not shown.
    static func make(
        _ call: AppServicesVerdict.Call, _ response: CurlResponse, secrets: [Secret]
    ) -> Result<Grant, IdentityError> {
        let (decoded, error) = response.body.withBytes { TokenReader.readUsable($0) }
        do throws(UnusableGrantError) {
            if let error { throw UnusableGrantError(error) }
            return .success(try grant(decoded, call, response, secrets))
        } catch {
            return .failure(
                AppServicesVerdict.malformed(
                    call, response.status, error.message, decoded: decoded, isBroken: error.isBroken
                )
                .withRetryAfter(of: response))
        }
    }

    private static func grant(
        _ decoded: TokenResponse, _ call: AppServicesVerdict.Call, _ response: CurlResponse, _ secrets: [Secret]
    ) throws(UnusableGrantError) -> Grant {
        // Core reports an error in a 200 response as an error (app-services.md 2.3).
        guard !decoded.hasError else {
            let code = decoded.errorCode(without: SecretEcho(of: secrets, and: response))
            throw UnusableGrantError("it carries an error (\(code ?? "without a code"))")
        }
        guard let accessToken = decoded.accessToken else { throw UnusableGrantError("there is no access_token") }
        guard let claims = JWTClaims(of: accessToken) else { throw UnusableGrantError("the access_token is not a JWT") }
        // It is shown and stored as the account's name.
        let userID = decoded.userID.flatMap { repeatsSecret($0, secrets, response) ? nil : $0 }
        if call == .login {
            guard decoded.refreshToken != nil else { throw UnusableGrantError("there is no refresh_token") }
            guard decoded.userID?.isEmpty == false else { throw UnusableGrantError("there is no user_id") }
            guard userID != nil else { throw UnusableGrantError("its user_id repeats a secret of the login") }
        }
        if let expiry = claims.expiry, isPast(expiry, response.serverDate) {
            throw UnusableGrantError("the access_token had expired when it came")
        }
        let expiry = decoded.refreshToken.flatMap { JWTClaims(of: $0)?.expiry }
        return Grant(
            accessToken: accessToken,
            // A link continues the session: whatever else its response brings is not used.
            refreshToken: call == .link ? nil : decoded.refreshToken, userID: userID,
            lifetime: .seconds(try lifetime(decoded, claims, response.serverDate)),
            refreshTokenExpiry: expiry.flatMap(wallTime),
            serverDate: response.serverDate, requestStartedAt: response.requestStartedAt)
    }

    private static func repeatsSecret(_ userID: String, _ sent: [Secret], _ response: CurlResponse) -> Bool {
        let isSent = Array(userID.utf8).withUnsafeBytes { SecretEcho(ofWhole: sent).isIn($0) }
        return isSent || SecretEcho(of: [], and: response).isIn(name: userID)
    }

    private static func lifetime(
        _ decoded: TokenResponse, _ claims: JWTClaims, _ date: WallTime?
    ) throws(UnusableGrantError) -> Int64 {
        let seconds = TokenLifetime.seconds(stated: decoded.expiresIn, claims: claims, date: date)
        guard seconds >= TokenLifetime.minimum else {
            throw UnusableGrantError("the access_token lives for less than \(TokenLifetime.minimum) s")
        }
        return seconds
    }

    /// Whether both clocks agree that the token has ended. One clock alone may be wrong.
    private static func isPast(_ expiry: Int64, _ serverDate: WallTime?) -> Bool {
        guard let serverDate, let end = wallTime(expiry) else { return false }
        return end <= serverDate && end <= .now
    }

    /// nil for a time that 64 bits of nanoseconds cannot hold: such a token has no relevant end.
    private static func wallTime(_ seconds: Int64) -> WallTime? {
        0..<9_000_000_000 ~= seconds ? WallTime(seconds: seconds) : nil
    }

    /// A success that cannot be used. A type of its own, because the status and the tokens that must be revoked are
    /// added where it is caught.
    private struct UnusableGrantError: Error {
        let message: String
        /// The body is no JSON, or ends too early.
        var isBroken = false

        init(_ message: String) { self.message = message }

        init(_ error: TokenReader.ReadError) {
            switch error {
            case .json(let error):
                message = "not JSON (\(error.kind) at byte \(error.offset))"
                isBroken = true
            case .notAnObject: message = "not a JSON object"
            case .unfit(let reason): message = reason
            }
        }
    }
}
