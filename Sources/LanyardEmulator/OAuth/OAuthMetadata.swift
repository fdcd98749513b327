/// What the OAuth side says of itself.
extension ServiceState {
    /// RFC 8414 §2 and OpenID Connect Discovery 1.0 §3.
    func oauthMetadata(_ issuer: String) -> JSONValue {
        let methods = JSONValue.array(["client_secret_basic", "client_secret_post", "none"].map { .string($0) })
        let secrets = JSONValue.array(["client_secret_basic", "client_secret_post"].map { .string($0) })
        let scopes = oauth?.settings.scopes ?? ["openid", "profile", "email", "offline_access"]
        let algorithm = oauth?.key.algorithm ?? .es256
        return .members([
            "issuer": .string(issuer), "authorization_endpoint": .string(issuer + "/authorize"),
            "token_endpoint": .string(issuer + "/token"),
            "device_authorization_endpoint": .string(issuer + "/device_authorization"),
            "revocation_endpoint": .string(issuer + "/revoke"),
            "introspection_endpoint": .string(issuer + "/introspect"),
            "userinfo_endpoint": .string(issuer + "/userinfo"), "jwks_uri": .string(issuer + "/jwks"),
            "scopes_supported": .array(scopes.map { .string($0) }), "response_types_supported": .array(["code"]),
            "response_modes_supported": .array(["query"]),
            "grant_types_supported": .array(OAuthGrant.allCases.map { .string($0.rawValue) }),
            "token_endpoint_auth_methods_supported": methods,
            "revocation_endpoint_auth_methods_supported": methods,
            "introspection_endpoint_auth_methods_supported": secrets,
            "code_challenge_methods_supported": .array(["S256"]),
            "authorization_response_iss_parameter_supported": true, "subject_types_supported": .array(["public"]),
            "id_token_signing_alg_values_supported": .array([.string(algorithm.rawValue)]),
            "request_parameter_supported": false, "request_uri_parameter_supported": false,
        ])
    }

    /// RFC 7517 §5.
    func oauthKeys() -> JSONValue { .members(["keys": .array(oauth.map { [$0.key.jwk] } ?? [])]) }

    /// The claims of a user that scopes give (OpenID Connect Core 1.0 §5.4).
    func userClaims(of userID: String, _ scopes: [String]) -> JSONObject {
        var claims: JSONObject = ["sub": .string(userID)]
        guard let data = user(userID)?.data else { return claims }
        let email = data["email"]?.string
        if scopes.contains("email"), let email {
            claims["email"] = .string(email)
            claims["email_verified"] = true
        }
        if scopes.contains("profile") {
            claims["preferred_username"] = (email ?? name(of: userID)).map { .string($0) }
            claims["name"] = data["name"] ?? email.map { .string($0) }
        }
        return claims
    }
}
