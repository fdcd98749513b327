import LanyardFoundations
import LanyardSessionInterface

/// What GitHub responds to the request for an installation access token.
enum GitHubAppResponse {
    private static let lifetimeMin: Int64 = 2
    /// Ten years, in seconds, as for other services (refresh.md 1).
    private static let lifetimeMax: Int64 = 315_360_000

    /// - Parameters:
    ///   - secrets: what the call has sent. The service's words are not shown with one of them.
    ///   - now: this machine's time, for a response without a `Date`.
    static func grant(
        in outcome: Result<CurlResponse, CurlError>, without secrets: [Secret], now: WallTime
    ) -> Result<Grant, IdentityError> {
        switch outcome {
        case .failure(let failure): return .failure(failure.identityError(of: "the login"))
        case .success(let response):
            let result =
                response.status == 201
                ? success(response, now) : .failure(error(response, now).with(wordsOf: response, without: secrets))
            return result.mapError { $0.withRetryAfter(of: response, now: now) }
        }
    }

    private static func success(_ response: CurlResponse, _ now: WallTime) -> Result<Grant, IdentityError> {
        let read = response.body.withBytes { Body($0) }
        func fail(_ reason: String) -> Result<Grant, IdentityError> {
            var error = IdentityError(
                .transient(retryAfter: nil), status: response.status,
                message: "the identity service's response to the login cannot be used: \(reason)")
            error.cause = read == nil ? .unusableResponse : .unusableToken
            return .failure(error)
        }
        guard let read else { return fail("not a JSON object") }
        guard let token = read.token else { return fail("there is no token that a header can carry") }
        guard let end = read.expiresAt else { return fail("there is no expires_at") }
        // By GitHub's own clock: this machine's may be wrong.
        let seconds = (end - (response.serverDate ?? now)).nanoseconds / 1_000_000_000
        guard seconds >= lifetimeMin else { return fail("the token lives for less than \(lifetimeMin) s") }
        return .success(
            Grant(
                accessToken: token, refreshToken: nil, userID: nil, lifetime: .seconds(min(seconds, lifetimeMax)),
                refreshTokenExpiry: nil, serverDate: response.serverDate, requestStartedAt: response.requestStartedAt))
    }

    /// What GitHub responds to the revocation of a token. Of a token that it does not know any more it says 401.
    static func revocation(
        in outcome: Result<CurlResponse, CurlError>, of token: Secret, now: WallTime
    ) -> Result<Void, IdentityError> {
        switch outcome {
        case .failure(let failure): return .failure(failure.identityError(of: "the revocation"))
        // The one success that GitHub has (its REST API, "Revoke an installation access token"). A page is a gateway's.
        case .success(let response) where response.status == 204: return .success(())
        case .success(let response):
            let isOwn = response.body.withBytes { Body($0) }?.hasMessage == true
            let verdict: IdentityError.Verdict =
                switch response.status {
                case 401 where isOwn: .sessionDead
                default: .transient(retryAfter: response.retryAfter(now: now))
                }
            var error = IdentityError(
                verdict, status: response.status,
                message: "the identity service responded with \(response.status) to the revocation")
            // A server that does not have the call, such as an old one of GitHub Enterprise.
            error.isUnsupported = isOwn && response.status == 404
            return .failure(error.with(wordsOf: response, without: [token]))
        }
    }

    /// Each refusal of GitHub has a JSON body with `message`; a page without one is a gateway's.
    private static func error(_ response: CurlResponse, _ now: WallTime) -> IdentityError {
        let body = response.body.withBytes { Body($0) }
        let isOwn = body?.hasMessage == true
        let isLimit = response.fields.rateLimitRemaining == "0" || body?.namesLimit == true
        let transient = IdentityError.Verdict.transient(
            retryAfter: response.retryAfter(now: now) ?? (isLimit ? limitEnd(response, now) : nil))
        let (verdict, cause, remedy): (IdentityError.Verdict, IdentityCause, String) =
            switch response.status {
            case 408, 425: (transient, .busy, OAuthVerdict.busy(response.status))
            case 429: (transient, .busy, ": a limit on requests, which ends by itself")
            case 500...599: (transient, .serviceFailure, "")
            case 401 where isOwn:
                (
                    .credentialRefused, .client,
                    ": the key does not belong to the app, or this machine's clock is wrong; check app_id and key_file"
                )
            case 401: (.credentialDoubted, .unexplained, "")
            // A limit on requests has this status, too.
            case 403 where isLimit || response.fields.retryAfter != nil:
                (transient, .busy, ": a limit on requests, which ends by itself")
            case 403 where isOwn: (.credentialRefused, .policy, ": the installation is suspended, or may not do this")
            case 404 where isOwn:
                (
                    .credentialRefused, .noEndpoint,
                    ": the app has no such installation; check installation_id and base_url"
                )
            case 422 where isOwn:
                (.credentialRefused, .scope, ": the installation does not have these repositories or permissions")
            case 300..<400: (transient, .noEndpoint, ", a redirect that is not followed; check base_url")
            case 404, 405, 410, 421: (transient, .noEndpoint, ", as if no endpoint were there; check base_url")
            default: (transient, .unusableResponse, "")
            }
        var error = IdentityError(
            verdict, status: response.status,
            message: "the identity service responded with \(response.status) to the login\(remedy)")
        error.cause = cause
        error.isServiceError = isOwn
        error.isOfClient = isOwn && response.status == 401
        return error
    }

    /// How long a limit on requests lasts that does not say so by `Retry-After`: to its reset, which GitHub gives in seconds since 1970;
    /// without one a minute, as GitHub's documentation asks for.
    private static func limitEnd(_ response: CurlResponse, _ now: WallTime) -> Duration {
        let reset = response.fields.rateLimitReset.flatMap { Int64($0) }.map { WallTime(seconds: $0) }
        return reset.map { max($0 - (response.serverDate ?? now), .seconds(1)) } ?? .seconds(60)
    }

    /// The members that count.
    private struct Body {
        var token: Secret?
        var expiresAt: WallTime?
        var hasMessage = false
        /// The message is of a limit on requests.
        var namesLimit = false

        /// nil: not an object.
        init?(_ bytes: UnsafeRawBufferPointer) {
            var reader = JSONReader(bytes)
            do throws(JSONError) {
                guard try reader.next() == .objectStart else { return nil }
                while case .name(let name) = try reader.next() {
                    let names: [StaticString] = ["token", "expires_at", "message"]
                    guard let known = names.first(where: { JSONText.matches(name, of: bytes, $0) }) else {
                        try reader.skipValue()
                        continue
                    }
                    let value = try reader.next()
                    if value == .objectStart || value == .arrayStart { try OAuthResponse.skipRest(of: &reader) }
                    guard case .string(let text) = value else { continue }
                    switch known.description {
                    case "token":
                        let secret = JSONText.secret(text, of: bytes, countMax: TokenReader.tokenBytesMax)
                        token = secret.flatMap { BearerToken.isValid($0) ? $0 : nil }
                    case "expires_at":
                        expiresAt = Timestamp.readDateTime(String(decoding: bytes[text.range], as: UTF8.self))
                    default:
                        hasMessage = true
                        namesLimit = String(decoding: bytes[text.range], as: UTF8.self).lowercased()
                            .contains("rate limit")
                    }
                }
                guard try reader.next() == .end else { return nil }
            } catch {
                return nil
            }
        }
    }
}
