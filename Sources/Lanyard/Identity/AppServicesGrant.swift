/// Makes a `Grant` of a successful answer (appservices.md 2.3, appservices.md 3.1, refresh.md 1).
enum AppServicesGrant {
    /// What a token without any statement of its life is taken for.
    private static let lifetimeAssumed: Int64 = 300
    private static let lifetimeMin: Int64 = 2
    /// Ten years; what says more means "for ever" and must not overflow later sums.
    private static let lifetimeMax: Int64 = 315_360_000

    static func make(_ call: AppServicesVerdict.Call, _ answer: CurlAnswer) -> Result<Grant, IdentityFault> {
        let (said, problem) = answer.body.withBytes { TokenReader.readUsable($0) }
        do throws(Reason) {
            if let problem { throw Reason(problem) }
            return .success(try grant(said, call, answer))
        } catch {
            return .failure(AppServicesVerdict.malformed(call, answer.status, error.words, said: said))
        }
    }

    private static func grant(
        _ said: TokenAnswer, _ call: AppServicesVerdict.Call, _ answer: CurlAnswer
    ) throws(Reason) -> Grant {
        // Core reports an error that comes with a 200 as an error (appservices.md 2.3).
        guard !said.hasError else { throw Reason("it carries an error (\(said.errorCode ?? "without a code"))") }
        guard let accessToken = said.accessToken else { throw Reason("there is no access_token") }
        guard let claims = JWTClaims(of: accessToken) else { throw Reason("the access_token is not a JWT") }
        if call == .login {
            guard said.refreshToken != nil else { throw Reason("there is no refresh_token") }
            guard said.userID?.isEmpty == false else { throw Reason("there is no user_id") }
        }
        let expiry = said.refreshToken.flatMap { JWTClaims(of: $0)?.expiry }
        return Grant(
            accessToken: accessToken, refreshToken: said.refreshToken, userID: said.userID,
            lifetime: .seconds(try lifetime(said, claims)), refreshTokenExpiry: expiry.flatMap(wallTime),
            serverDate: answer.serverDate)
    }

    private static func lifetime(_ said: TokenAnswer, _ claims: JWTClaims) throws(Reason) -> Int64 {
        var seconds = lifetimeAssumed
        if let stated = said.expiresIn {
            seconds = stated
        } else if let expiry = claims.expiry, let issuedAt = claims.issuedAt {
            seconds = expiry - issuedAt
        }
        guard seconds >= lifetimeMin else { throw Reason("the access_token lives for less than \(lifetimeMin) s") }
        return min(seconds, lifetimeMax)
    }

    /// nil for what 64 bits of nanoseconds cannot hold: such a token has no end that matters.
    private static func wallTime(_ seconds: Int64) -> WallTime? {
        0..<9_000_000_000 ~= seconds ? WallTime(seconds: seconds) : nil
    }

    private struct Reason: Error {
        let words: String

        init(_ words: String) { self.words = words }

        init(_ problem: TokenReader.Problem) {
            switch problem {
            case .json(let fault): words = "not JSON (\(fault.kind) at byte \(fault.offset))"
            case .notAnObject: words = "not a JSON object"
            case .unfit(let reason): words = reason
            }
        }
    }
}
