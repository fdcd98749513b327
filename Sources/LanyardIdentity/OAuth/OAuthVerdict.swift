import LanyardFoundations
import LanyardSessionInterface
import LanyardSettings

/// What a response of an authorization server means for a session (refresh-outcomes.md 10). Pure.
enum OAuthVerdict {
    /// A call at the token or revocation endpoint, or for the metadata.
    enum Call: String, Sendable {
        case metadata = "request for the metadata"
        case login, refresh, revocation
        case connection = "attempt to connect"
    }

    /// What the meaning of an error depends on besides the response.
    struct Subject: Sendable {
        let call: Call
        let profile: OAuthProfile
        /// What the request carried. An error with a piece of one is not shown.
        var secrets: [Secret] = []
        /// What the client's own error should be checked for; nil: nothing in particular.
        var clientHint: String?
        /// The token of a variant is asked for: a refusal of the request says nothing of the session's credential.
        var isFetch = false
        /// The grant is that of a program, which no user can approve.
        var isMachineGrant = false
        /// Where the request went, if the error says so.
        var url: String?
    }

    /// The error that a response stands for; nil: a success.
    static func error(_ subject: Subject, _ response: CurlResponse, now: WallTime) -> IdentityError? {
        let decoded = response.body.withBytes { OAuthResponse($0, sent: subject.secrets) }
        let isSuccess = 200..<300 ~= response.status
        let row = row(subject, response.status, decoded)
        // Some servers name an error of a 200 by another member than `error`.
        let hasError = decoded.hasError || decoded.namesError && row != nil && decoded.accessToken == nil
        guard !isSuccess || hasError else { return nil }
        let code = code(decoded, SecretEcho(of: subject.secrets, and: response))
        let verdict = verdict(subject, response, decoded, row, now: now)
        let cause = cause(subject, response.status, decoded, row)
        var error = IdentityError(verdict, status: response.status, code: code, message: "")
            .with(wordsOf: response, without: subject.secrets)
        error.message =
            "the identity service responded with \(response.status)\(code.map { " \($0)" } ?? "") to the "
            + subject.call.rawValue + (subject.url.map { " at \($0)" } ?? "")
            + meaning(cause, subject, response.status, saysWhy: code != nil || error.serviceText != nil)
        error.cause = cause
        error.isServiceError = hasError
        error.isOfClient = row == .client
        if subject.call == .refresh {
            error.refreshResponse = RefreshResponse(
                isSent: !response.isEarly, status: response.status, error: statedError(response.status, decoded, row))
            error.refusesRefresh = refusesRefresh(subject, response.status, decoded, row)
        }
        // What it brings besides is the service's, whatever it says.
        if isSuccess { note(decoded, of: subject.call, in: &error) }
        // RFC 7009 §2.2.1.
        error.isUnsupported =
            subject.call == .revocation && decoded.error(at: "/error") == "unsupported_token_type"
        // RFC 6749 §5.2 has 400 for it. Keycloak says unauthorized_client with 401, too, when the client's secret is wrong.
        error.isGrantRefused =
            response.status == 400
            && ["unauthorized_client", "unsupported_grant_type"].contains(decoded.error(at: "/error"))
        error.responsible = row == .user ? .user : isMisdirected(subject.call, response.status) ? .operator : nil
        return error.withRetryAfter(of: response, now: now)
    }

    /// What the response to a refresh says of an error. A failing server's page is told by a name that no row has: "Internal Server
    /// Error", for example.
    private static func statedError(
        _ status: Int, _ decoded: OAuthResponse, _ row: OAuthErrorClass?
    ) -> RefreshResponse.StatedError {
        guard !decoded.isBroken else { return .none }
        if decoded.error(at: "/error") == "server_error" { return .ofServer }
        return (status < 500 ? decoded.namesError : row != nil) ? .named : .none
    }

    /// See `IdentityError.refusesRefresh`. A variant's fetch is judged on its own.
    private static func refusesRefresh(
        _ subject: Subject, _ status: Int, _ decoded: OAuthResponse, _ row: OAuthErrorClass?
    ) -> Bool {
        guard !subject.isFetch, ![408, 425, 429].contains(status), decoded.namesError else { return false }
        // Tokens that came beside the error are the session's.
        let isOfTable = 400..<500 ~= status || 200..<300 ~= status && decoded.accessToken == nil
        return isOfTable && row != .retry && row != .client
    }

    private static func row(_ subject: Subject, _ status: Int, _ decoded: OAuthResponse) -> OAuthErrorClass? {
        let row = OAuthErrorRow.match(decoded, status: status, profile: subject.profile)
        // The server's policy denies the client: no user is there who could log in or consent.
        return row == .user && subject.isMachineGrant ? .policy : row
    }

    /// Nothing is there that takes the call, which only another configuration changes. A failing server says something else.
    static func isMisdirected(_ call: Call, _ status: Int) -> Bool {
        if call == .metadata, 400..<500 ~= status { return ![408, 425, 429].contains(status) }
        return 300..<400 ~= status || [404, 405, 410, 421].contains(status)
    }

    /// The error that a missing or incomplete response stands for.
    ///
    /// - Parameter sent: the secrets of the request.
    static func error(_ call: Call, _ failure: CurlError, sent: [Secret] = []) -> IdentityError {
        var error = failure.identityError(of: "the \(call.rawValue)")
        if call == .refresh { error.note(failure) }
        if let body = failure.partialBody {
            note(body.withBytes { OAuthResponse($0, sent: sent) }, of: call, in: &error)
        }
        return error
    }

    /// What a successful response to a revocation says (RFC 7009 §2.2). Its body means nothing, but a gateway's page confirms nothing,
    /// and neither does a failure that it states.
    ///
    /// - Parameter sent: the secrets of the request.
    static func revocation(_ response: CurlResponse, sent: [Secret]) -> Result<Void, IdentityError> {
        let namesError = response.body.withBytes { OAuthResponse($0, sent: sent).namesError }
        let defect = response.isPage ? "it is a page" : namesError ? "it names an error" : nil
        return defect.map { .failure(malformed(.revocation, response.status, $0, nil)) } ?? .success(())
    }

    /// The error of a successful response that cannot be used.
    ///
    /// - Parameters:
    ///   - responsible: who must act; nil: the response may be another one next time.
    ///   - isSent: false if it came before the refresh token was sent.
    static func malformed(
        _ call: Call, _ status: Int, _ reason: String, _ decoded: OAuthResponse?, responsible: ResponsibleParty? = nil,
        isSent: Bool = true
    ) -> IdentityError {
        var error = IdentityError(
            .transient(retryAfter: nil), status: status,
            message: "the identity service's response to the \(call.rawValue) cannot be used: \(reason)")
        error.responsible = responsible
        error.cause = call == .metadata ? .metadata : decoded?.isObject == true ? .unusableToken : .unusableResponse
        if call == .refresh {
            // Beside no token, a member that names errors names one.
            let isNamed = decoded.map { $0.namesError && !$0.isBroken && $0.accessToken == nil } ?? false
            error.refreshResponse = RefreshResponse(isSent: isSent, status: status, error: isNamed ? .named : .none)
            error.refusesRefresh = isNamed
        }
        if let decoded { note(decoded, of: call, in: &error) }
        return error
    }

    /// Records what an unusable response of success has left behind at the service.
    private static func note(_ decoded: OAuthResponse, of call: Call, in error: inout IdentityError) {
        error.unusedRefreshToken = decoded.newRefreshToken
        error.hasMadeSession = call == .login && error.unusedRefreshToken != nil
    }

    private static func verdict(
        _ subject: Subject, _ response: CurlResponse, _ decoded: OAuthResponse, _ row: OAuthErrorClass?, now: WallTime
    ) -> IdentityError.Verdict {
        let transient = IdentityError.Verdict.transient(retryAfter: response.retryAfter(now: now))
        // A gateway's page under an error of its own, whatever it says.
        guard ![408, 425, 429].contains(response.status), response.status < 500 else { return transient }
        switch (row, subject.call) {
        case (.client, .login) where subject.isFetch, (.request, .login) where subject.isFetch,
            (.policy, .login) where subject.isFetch:
            return .clientRefused
        // A consent that one resource wants says nothing of the session.
        case (.user, .refresh) where subject.isFetch, (.user, .login) where subject.isFetch: return .clientRefused
        case (.grant, .refresh), (.user, .refresh): return .sessionDead
        case (.grant, .login), (.user, .login), (.client, .login), (.request, .login), (.policy, .login):
            return .credentialRefused
        case (.client, .refresh), (.request, .refresh), (.policy, .refresh): return .clientRefused
        case (.retry, .login), (.retry, .refresh): return transient
        case (_, .metadata), (_, .revocation), (_, .connection): return transient
        // Without a known error: some servers refuse with an empty body (refresh-outcomes.md 10).
        case (nil, .login), (nil, .refresh):
            return [400, 401].contains(response.status) && !decoded.hasOtherContent ? .credentialDoubted : transient
        }
    }

    /// Only `[A-Za-z0-9_]` is a code for the log and the store. A name that is not known must have no secret of the call.
    private static func code(_ decoded: OAuthResponse, _ echo: @autoclosure () -> SecretEcho) -> String? {
        guard let text = ["/error", "/error_code", "/code", "/errorCode"].lazy.compactMap(decoded.error).first,
            text.utf8.allSatisfy({ $0 != UInt8(ascii: ".") && $0 != UInt8(ascii: "-") && !(0x30...0x39 ~= $0) }),
            OAuthErrorRow.isKnown(text) || !echo().isIn(name: text)
        else { return nil }
        return text
    }
}

extension IdentityError {
    /// The same without the issuer that the metadata name, if that has a secret of the call for which they were asked.
    func without(_ secrets: @autoclosure () -> [Secret]) -> IdentityError {
        guard cause == .metadata, let start = message.firstRange(of: OAuthMetadata.issuerLabel)?.upperBound,
            let end = message[start...].firstRange(of: OAuthMetadata.configuredLabel)?.lowerBound,
            SecretEcho(of: secrets()).isIn(name: String(message[start..<end]))
        else { return self }
        var error = self
        error.message = message[..<start] + OAuthMetadata.hidden + message[end...]
        return error
    }

    /// The same with the service's own words of a response.
    ///
    /// - Parameter secrets: what the call has sent.
    func with(wordsOf response: CurlResponse, without secrets: [Secret]) -> IdentityError {
        var error = self
        error.serviceText = response.body.withBytes {
            ServiceErrorText.explanation(in: $0, besides: code, without: secrets)
        }
        return error
    }
}
