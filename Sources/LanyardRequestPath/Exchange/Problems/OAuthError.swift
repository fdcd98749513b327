import LanyardFoundations

/// Problems in the form of a token endpoint (RFC 6749 §5.2), and those that brokers alone have (fleet.md).
extension Problem {
    /// The words of RFC 6749 §5.2 and RFC 8693 §2.2.2 that a broker says.
    package enum OAuthCode: String, Sendable {
        case invalidRequest = "invalid_request"
        case invalidGrant = "invalid_grant"
        case invalidScope = "invalid_scope"
        case invalidTarget = "invalid_target"
        case unauthorizedClient = "unauthorized_client"
        case unsupportedGrantType = "unsupported_grant_type"
        case temporarilyUnavailable = "temporarily_unavailable"
    }

    /// The same words whether the user exists or not.
    package static let tokenNotAllowed: Problem = {
        var problem = denial(
            "caller-not-allowed", 403, "Caller not allowed", "This broker gives the caller no such token; see callers.",
            .caller)
        problem.oauthCode = .unauthorizedClient
        return problem
    }()

    /// The caller may have a token of the user, and not this one.
    package static func tokenNotAllowed(_ code: OAuthCode) -> Problem {
        var problem = tokenNotAllowed
        problem.oauthCode = code
        return problem
    }

    /// - Parameter detail: what is wrong, without a byte of the request.
    package static func grantMalformed(_ detail: String, _ code: OAuthCode = .invalidRequest) -> Problem {
        var problem = malformed(detail, closes: false)
        problem.oauthCode = code
        return problem
    }

    package static let grantNotSupported: Problem = {
        var problem = grantMalformed("an unknown grant", .unsupportedGrantType)
        problem.detail = "This broker takes the grants client_credentials and token exchange (RFC 8693)."
        return problem
    }()

    /// - Parameter allow: the methods of the path.
    package static func grantMethodNotAllowed(_ allow: String, closes: Bool) -> Problem {
        var problem = methodNotAllowed(allow, closes: closes)
        problem.detail = "The broker does not take this method here."
        return problem
    }

    static let grantTooLarge: Problem = {
        var problem = contentTooLarge
        problem.detail = "The body is larger than a broker takes."
        return problem
    }()

    /// A reload has come between the head and the end of the body.
    static let grantsReplaced = overloaded("The configuration was reloaded while the body came: repeat the request.")

    package static let unknownGrantPath = denial(
        "no-route", 404, "No route", "This broker has nothing at this path; see serves.", .path)

    /// A request for metadata that a page or a proxy could have sent.
    package static func metadataNotAllowed(_ detail: String) -> Problem {
        denial("caller-not-allowed", 403, "Caller not allowed", detail, .caller)
    }

    private var code: OAuthCode {
        if let oauthCode { return oauthCode }
        return switch name {
        case "login-required", "credential-refused", "no-active-user": .invalidGrant
        case _ where status >= 500: .temporarilyUnavailable
        default: .invalidRequest
        }
    }

    /// A repeat of the request may succeed later, or cannot.
    var oauthStatus: Int {
        switch code {
        // 405, 408 and 413 say more than 400.
        case .temporarilyUnavailable, .invalidRequest: status
        default: 400
        }
    }

    /// The body: one line of JSON.
    var oauthError: JSONWriter {
        var json = JSONWriter(capacity: 128 + 2 * detail.utf8.count)
        json.beginObject()
        json.key("error")
        json.string(code.rawValue)
        json.key("error_description")
        // Its characters are limited (RFC 6749 §5.2).
        json.string(
            String(
                decoding: detail.utf8.map { 0x20...0x7e ~= $0 && $0 != 0x22 && $0 != 0x5c ? $0 : 0x27 }, as: UTF8.self))
        json.endObject()
        json.newline()
        return json
    }
}
