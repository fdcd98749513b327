import LanyardFoundations
import LanyardRequestPath

/// The responses that have a token.
enum TokenResponse {
    /// - Parameter expiresIn: seconds; nil: the token has no known end.
    static func make(_ grant: TokenGrant, _ token: AccessToken, user: String, expiresIn: Int?) -> GrantResponse {
        var body = SecretBuffer(capacity: token.token.count + 192)
        body.append("{\"access_token\":")
        token.token.withBytes { _ = JSONText.write($0, into: &body) }
        body.append(",\"token_type\":\"Bearer\"")
        switch grant.interface {
        case .token:
            body.append(",\"user\":")
            JSONText.write(user, into: &body)
            body.append(",\"generation\":\(token.generation)")
            append(expiresIn, to: &body)
        case .oauth2:
            append(expiresIn, to: &body)
            body.append(",\"issued_token_type\":\"urn:ietf:params:oauth:token-type:access_token\"")
        // google-auth demands a number.
        case .gceMetadata: append(expiresIn ?? unknownLifetime, to: &body)
        }
        body.append("}\n")
        return GrantResponse(200, "application/json", body.seal(), fields: fields(of: grant.interface))
    }

    /// Seconds, where the form has no way to say that none are known.
    private static let unknownLifetime = 3600

    private static func append(_ expiresIn: Int?, to body: inout SecretBuffer) {
        if let expiresIn { body.append(",\"expires_in\":\(expiresIn)") }
    }

    private static func fields(of interface: TokenGrant.Interface) -> [(name: StaticString, value: StaticString)] {
        switch interface {
        case .token: []
        // RFC 6749 §5.1.
        case .oauth2: [("Pragma", "no-cache")]
        case .gceMetadata: [("Metadata-Flavor", "Google")]
        }
    }
}
