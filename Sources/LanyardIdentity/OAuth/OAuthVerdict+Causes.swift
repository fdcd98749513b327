import LanyardFoundations
import LanyardSessionInterface
import LanyardSettings

/// What is at fault when an authorization server refuses, in words. The class of an error decides, then its status.
extension OAuthVerdict {
    /// Of an error that the browser brings (RFC 6749 §4.1.2.1).
    static func browserCause(_ error: String, profile: OAuthProfile) -> IdentityCause {
        // Of a type of login, as of a grant.
        if error == "unsupported_response_type" { return .grant }
        return named(error, 400, OAuthErrorRow.match(error, profile: profile), .login) ?? .request
    }

    static func cause(
        _ subject: Subject, _ status: Int, _ decoded: OAuthResponse, _ row: OAuthErrorClass?
    ) -> IdentityCause {
        if [408, 425, 429].contains(status) { return .busy }
        if status >= 500 { return .serviceFailure }
        if subject.call == .metadata { return isMisdirected(.metadata, status) ? .metadata : .unusableResponse }
        if let cause = named(decoded.error(at: "/error"), status, row, subject.call) { return cause }
        if isMisdirected(subject.call, status) { return .noEndpoint }
        return decoded.hasError || 400..<500 ~= status && !decoded.hasOtherContent ? .unexplained : .unusableResponse
    }

    /// Of an error of a row; nil: it has none.
    private static func named(
        _ error: String?, _ status: Int, _ row: OAuthErrorClass?, _ call: Call
    ) -> IdentityCause? {
        switch row {
        case .retry: return error == "server_error" || error == "temporarily_unavailable" ? .serviceFailure : .busy
        case .grant: return call == .login ? .credential : .session
        // With 401 Keycloak means a wrong secret.
        case .client: return error == "unauthorized_client" && status == 400 ? .grant : .client
        case .user: return .user
        case .policy: return .policy
        case .request:
            switch error {
            case "invalid_scope", "insufficient_scope": return .scope
            case "invalid_target": return .target
            case "unsupported_grant_type": return .grant
            default: return .request
            }
        case nil: return nil
        }
    }

    /// Behind what the service has responded with: what it means, and what to look at.
    ///
    /// - Parameter saysWhy: the response has an error, or words of the service.
    static func meaning(_ cause: IdentityCause, _ subject: Subject, _ status: Int, saysWhy: Bool = true) -> String {
        let hint = subject.clientHint.map { "; \($0)" } ?? ""
        let redirect = 300..<400 ~= status ? ", a redirect that is not followed" : ""
        return switch cause {
        case .metadata: redirect + "; check issuer, or name the endpoints (endpoints.token)"
        case .session where subject.call == .revocation: ": it does not know the token, or the token has ended"
        case .session: ": the refresh token has ended, was revoked, or was used by another program"
        case .credential: ": what the login sent is wrong, has ended, or has been used"
        case .client:
            ": the client is unknown or its authentication was refused; check client_id and client_authentication"
                + hint
        case .grant: ": the server does not offer this grant to the client; check the client at the server"
        case .scope: subject.isFetch ? ": check token.scopes of the route" : ": check scopes"
        case .target where subject.isFetch:
            ": check token of the route" + (subject.isMachineGrant ? "" : Self.resourcesOfLogin)
        case .target: ": check the audience or resource"
        case .request:
            ": the server does not offer this to the client, or wants another form; check the client at the server, and params"
        case .user where subject.isFetch:
            ": the user must consent at the service to what token of the route asks for"
        case .user: ": the user must log in or consent at the service; then run lanyard login"
        case .policy: ": the server denies this to the client, or wants a consent; check the server's access policy"
        case .busy: busy(status)
        case .noEndpoint where !redirect.isEmpty: redirect + "; check the endpoint"
        case .noEndpoint: ", as if no endpoint were there; check the endpoint"
        case .unexplained:
            (saysWhy ? ", an error that Lanyard does not know" : " without saying why")
                + unexplained(subject.call, hint)
        case .noResponse, .serviceFailure, .untrusted, .tls, .clientCertificate, .prohibited, .unusableToken,
            .unusableResponse, .application, .file, .account, .machine, .wrongIssuer:
            ""
        }
    }

    /// RFC 8707 §2.2: a refresh token is for the resources that its login has asked for.
    static let resourcesOfLogin =
        "; the login of a user must ask for all of them: name them in params of the identity (resource: [...]), then: lanyard login"

    private static func unexplained(_ call: Call, _ hint: String) -> String {
        switch call {
        case .login: "; check the credential, client_id and client_authentication" + hint
        case .refresh: "; check client_id and client_authentication" + hint
        case .revocation, .metadata, .connection: ""
        }
    }

    /// RFC 9110 §15.5.9, RFC 8470 §5.2, RFC 6585 §4.
    static func busy(_ status: Int) -> String {
        switch status {
        case 408: ": it has waited too long for the request"
        case 425: ": it wants the request once more, later"
        default: ": it limits calls"
        }
    }
}
