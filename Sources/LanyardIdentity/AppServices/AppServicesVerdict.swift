import LanyardFoundations
import LanyardSessionInterface

/// What a response of App Services means for a session: the table of app-services.md 5.3, by the rules of refresh-outcomes.md 10.
///
/// Pure. An `error_code` is used but never required: the status alone says whether a session is dead (app-services.md 3.4).
enum AppServicesVerdict {
    enum Call: String, Sendable {
        case location = "location request"
        case login, refresh, logout, link
        /// No call at all: the service is reached, and that is it.
        case connection = "attempt to connect"
    }

    /// Refusals with another status than 401: a repeat with the same credential changes none of them.
    private static let refusals: Set<String> = [
        "InvalidPassword", "AuthError", "UserDisabled", "UserNotFound", "AuthProviderNotFound",
    ]

    /// The error that a response stands for; nil for a success.
    ///
    /// - Parameters:
    ///   - secrets: what the request carried. An `error_code` with a piece of one is not shown.
    ///   - appID: the app of the request.
    ///   - login: the kind of a login, by which one code means different things; nil: another call.
    static func error(
        _ call: Call, _ response: CurlResponse, secrets: [Secret] = [], appID: String,
        login: AppServicesLoginKind? = nil, now: WallTime
    ) -> IdentityError? {
        guard !(200..<300 ~= response.status) else { return nil }
        let decoded = response.isJSON ? response.body.withBytes { try? TokenReader.read($0) } : nil
        let verdict = verdict(call, response.status, decoded, retryAfter: response.retryAfter(now: now))
        let code = decoded?.errorCode(without: SecretEcho(of: secrets, and: response))
        let message =
            "the identity service responded with \(response.status)\(code.map { " \($0)" } ?? "") to the \(call.rawValue)"
        var error = IdentityError(
            verdict, status: response.status, code: code,
            message: message + remedy(call, verdict, response.status, decoded, login, appID: appID))
        error.cause = cause(call, verdict, response.status, decoded)
        error.isServiceError = decoded?.hasError ?? false
        // Of a refresh they say no more than its code, and might quote what an earlier login has sent.
        if error.isServiceError, call == .login {
            error.serviceText = response.body.withBytes { ServiceErrorText.read($0, without: secrets) }
        }
        if call == .refresh {
            // Its names of a failure of its own are many.
            let isNamed = error.isServiceError && response.status < 500
            error.refreshResponse = RefreshResponse(status: response.status, error: isNamed ? .named : .none)
            error.refusesRefresh = refusesRefresh(response.status, decoded)
        }
        return error.withRetryAfter(of: response, now: now)
    }

    /// Names of errors that pass by themselves.
    private static let passing: Set<String> = [
        "MaintenanceInProgress", "InternalServerError", "RateLimitExceeded", "TooManyRequests", "RateLimited",
    ]

    /// See `IdentityError.refusesRefresh`. A success that brings tokens beside an error is none.
    private static func refusesRefresh(_ status: Int, _ decoded: TokenResponse?) -> Bool {
        guard let decoded, decoded.hasError, decoded.accessToken == nil, !passing.contains(decoded.errorCode ?? "")
        else { return false }
        return 200..<300 ~= status || 400..<500 ~= status && ![408, 425, 429].contains(status)
    }

    /// What an operator does about an account that waits for its confirmation.
    static let confirmation =
        "confirm it by the service's email or by lanyard account confirm (resend-confirmation sends another email)"

    /// The error that a missing or incomplete response stands for. The part that has arrived may have made a session.
    static func error(_ call: Call, _ failure: CurlError) -> IdentityError {
        var error = failure.identityError(of: "the \(call.rawValue)")
        if call == .refresh { error.note(failure) }
        if let body = failure.partialBody {
            note(body.withBytes { TokenReader.readUsable($0).response }, of: call, in: &error)
        }
        return error
    }

    /// The error of a successful response that cannot be used.
    ///
    /// - Parameters:
    ///   - decoded: the readable part of it.
    ///   - isBroken: the rest is no JSON.
    static func malformed(
        _ call: Call, _ status: Int, _ reason: String, decoded: TokenResponse = TokenResponse(), isBroken: Bool = false
    ) -> IdentityError {
        var error = IdentityError(
            .transient(retryAfter: nil), status: status,
            message: "the identity service's response to the \(call.rawValue) cannot be used: \(reason)")
        let isObject = !decoded.hasOtherContent && !isBroken
        error.cause = call == .location || !isObject ? .unusableResponse : .unusableToken
        if call == .refresh {
            error.refreshResponse = RefreshResponse(status: status, error: decoded.hasError ? .named : .none)
            error.refusesRefresh = refusesRefresh(status, decoded)
        }
        note(decoded, of: call, in: &error)
        return error
    }

    /// What a successful response to a logout says: an error in it, and a page of a gateway, confirm nothing.
    static func revocation(_ response: CurlResponse) -> Result<Void, IdentityError> {
        let decoded = response.body.withBytes { TokenReader.readUsable($0).response }
        if decoded.hasError {
            return .failure(malformed(.logout, response.status, "it names an error", decoded: decoded))
        }
        return response.isPage ? .failure(malformed(.logout, response.status, "it is a page")) : .success(())
    }

    private static func cause(
        _ call: Call, _ verdict: IdentityError.Verdict, _ status: Int, _ decoded: TokenResponse?
    ) -> IdentityCause {
        guard case .transient = verdict else {
            return decoded?.errorCode == "AuthProviderNotFound" ? .grant : IdentityCause(verdict)
        }
        switch status {
        case 408, 425, 429: return .busy
        case 500...: return .serviceFailure
        case 300..<400, 404, 405, 421: return .noEndpoint
        default: break
        }
        guard decoded?.hasError == true else { return .unusableResponse }
        // Neither sends a credential: the place is asked for by the app's id, and a refresh has the session's token.
        return switch call {
        case .location: .application
        case .refresh, .logout: .session
        case .login, .link, .connection: .unexplained
        }
    }

    /// Records what an unusable response of success has left behind at the service.
    private static func note(_ decoded: TokenResponse, of call: Call, in error: inout IdentityError) {
        error.unusedRefreshToken = decoded.revocableToken
        error.hasMadeSession = call == .login && decoded.mayBelongToSession
        // An operator ends it at the service.
        if error.hasMadeSession, error.unusedRefreshToken == nil {
            error.message += "; it brings no refresh token by which Lanyard could end the session that it has made"
        }
    }

    private static func verdict(
        _ call: Call, _ status: Int, _ decoded: TokenResponse?, retryAfter: Duration?
    ) -> IdentityError.Verdict {
        let hasError = decoded?.hasError ?? false
        switch (status, call) {
        case (401, .refresh), (401, .logout): return .sessionDead
        case (403, .refresh) where hasError, (403, .logout) where hasError: return .sessionDead
        case (401, .login): return hasError ? .credentialRefused : .credentialDoubted
        case (400..<500, .login) where refusals.contains(decoded?.errorCode ?? ""): return .credentialRefused
        case (404, _) where decoded?.isUnknownApp ?? false: return .unknownApp
        case (410, _): return .gone
        default: return .transient(retryAfter: retryAfter)
        }
    }

    /// Distinguishes what the responses allow: a disabled user; a wrong credential or a deleted account (the same response for
    /// both); an account that is not confirmed; a session that has ended (app-services.md 3.3).
    private static func remedy(
        _ call: Call, _ verdict: IdentityError.Verdict, _ status: Int, _ decoded: TokenResponse?,
        _ login: AppServicesLoginKind?, appID: String
    ) -> String {
        let code = decoded?.errorCode
        return switch verdict {
        case .credentialRefused where code == "UserDisabled":
            ": the user is disabled at the service; enable it, then log it in by the admin API"
        case .credentialRefused where code == "AuthProviderNotFound":
            ": it does not offer this kind of login; enable it at the service, or use another"
        case .credentialRefused where login?.hasPendingAccounts == true && code == "AuthError":
            ": the account is not confirmed yet; \(confirmation), then log it in by lanyard login or the admin API, or restart Lanyard"
        case .sessionDead: ": the session was revoked or has ended, or its user was disabled or deleted"
        case .credentialRefused:
            ": the credential is wrong, or its account was deleted; check the credential and the account"
        case .credentialDoubted:
            " without saying why; check the credential, and what stands between Lanyard and the service"
        case .unknownApp: ": it knows no app \(appID); check app_id and base_url"
        case .gone: ": it has ended; check base_url"
        case .transient where 300..<400 ~= status: ", a redirect that is not followed; check base_url"
        case .transient where [408, 425, 429].contains(status): OAuthVerdict.busy(status)
        case .transient where cause(call, verdict, status, decoded) == .application:
            ": it does not take app_id \(appID) there; check app_id and base_url"
        default: ""
        }
    }
}

extension IdentityError {
    /// A refusal for which the credential itself may be at fault. The message then names its file.
    var mayBeOfCredential: Bool {
        guard verdict == .credentialRefused || verdict == .credentialDoubted else { return false }
        return switch cause ?? IdentityCause(verdict) {
        case .credential, .file, .unexplained: true
        case .noResponse, .serviceFailure, .busy, .noEndpoint, .untrusted, .tls, .clientCertificate, .prohibited,
            .metadata, .session, .client, .grant, .scope, .target, .request, .user, .policy, .unusableToken,
            .unusableResponse, .application, .account, .machine, .wrongIssuer:
            false
        }
    }
}

extension IdentityError.Verdict {
    /// Ends a session, or a credential's attempts, unless an operator does something.
    var isForGood: Bool {
        switch self {
        case .sessionDead, .credentialRefused, .credentialDoubted, .unknownApp: true
        case .transient, .unknownOutcome, .gone, .credentialUnavailable, .credentialDelayed, .accountInUse,
            .clientRefused, .callRefused:
            false
        }
    }
}
