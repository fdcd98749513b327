/// An error of the OAuth side: status, code and text (RFC 6749 §5.2).
///
/// A type of its own, because it is a response, and one without the members of `ServiceError`.
struct OAuthError: Error, Equatable {
    var status: Int
    var code: String
    let text: String

    /// - Parameter text: other characters than the RFC allows in `error_description` are replaced.
    init(_ status: Int, _ code: String, _ text: String) {
        self.status = status
        self.code = code
        self.text = Self.plain(text)
    }

    static func invalidRequest(_ text: String) -> OAuthError { OAuthError(400, "invalid_request", text) }
    static func invalidClient(_ text: String) -> OAuthError { OAuthError(401, "invalid_client", text) }
    static func invalidGrant(_ text: String) -> OAuthError { OAuthError(400, "invalid_grant", text) }
    static func invalidScope(_ text: String) -> OAuthError { OAuthError(400, "invalid_scope", text) }
    static func invalidTarget(_ text: String) -> OAuthError { OAuthError(400, "invalid_target", text) }
    static func unauthorizedClient(_ text: String) -> OAuthError { OAuthError(400, "unauthorized_client", text) }
    static func missing(_ name: String) -> OAuthError { invalidRequest("\(name) is missing") }

    static func unsupportedGrantType(_ name: String) -> OAuthError {
        let known = OAuthGrant.allCases.map(\.rawValue).joined(separator: ", ")
        return OAuthError(400, "unsupported_grant_type", "this stand-in has no grant \(name); it has \(known)")
    }
    static func unsupportedResponseType(_ name: String) -> OAuthError {
        OAuthError(400, "unsupported_response_type", "this stand-in has no response_type \(name); it has code")
    }
    static let tooLarge = OAuthError(413, "invalid_request", "the request body is too large")
    static let unknownToken = invalidGrant("the refresh token is unknown, or its session has ended")

    // The device grant (RFC 8628 §3.5).
    static let pending = OAuthError(400, "authorization_pending", "the user has not approved the login yet")
    static func slowDown(_ seconds: Double) -> OAuthError {
        OAuthError(
            400, "slow_down", "the client asks too often; the interval is now \(JSONValue.double(seconds).text) s")
    }
    static let expired = OAuthError(400, "expired_token", "the device code has expired")
    static let denied = OAuthError(400, "access_denied", "the user has denied the login")

    /// A planned fault of the service, in the form of this side.
    init(_ error: ServiceError) {
        let (status, code) =
            switch error.status {
            case 404: (401, "invalid_client")
            case 429, 503: (error.status, "temporarily_unavailable")
            default: (error.status, "server_error")
            }
        self.init(status, code, error.text)
    }

    var json: JSONValue { .members(["error": .string(code), "error_description": .string(text)]) }

    /// Printable ASCII without quotation marks and backslashes, at most 300 characters.
    private static func plain(_ text: String) -> String {
        String(
            String.UnicodeScalarView(
                text.unicodeScalars.prefix(300).map { scalar in
                    (0x20...0x7E).contains(scalar.value) && scalar != "\"" && scalar != "\\" ? scalar : "?"
                }))
    }
}
