extension IdentitySettings {
    /// A client of an OAuth 2.0 authorization server (RFC 6749), which may be an OpenID provider.
    package struct OAuth: Equatable, Sendable {
        /// Whose metadata names the endpoints (RFC 8414, OpenID Connect Discovery), as it is configured. nil: the token endpoint is
        /// configured.
        package var issuer: String?
        /// Where the issuer's metadata is asked for: the issuer with its host in canonical form (http-requests.md 4.6).
        package var issuerURL: String?
        /// Configured endpoints, which go before those of the metadata, with their hosts in canonical form.
        package var endpoints = OAuthEndpoints()
        /// RFC 6749 §2.2.
        package var clientID: String
        package var authentication = ClientAuthentication.none
        /// `auto`: `authentication` follows from the files, and a server may want more.
        package var isAuthenticationAutomatic = false
        /// RFC 6749 §3.3; empty: none is asked for.
        package var scopes: [String] = []
        /// Further form fields of token calls, in order. A name may come more than once.
        package var parameters: [OAuthParameter] = []
        /// Further fields of the head of token calls.
        package var tokenFields: [OAuthTokenField] = []
        package var refreshTokens = RefreshTokenSettings(.auto)
        /// How long an access token lives whose response and own claims do not say so; nil: 300 s.
        package var tokenLifetime: Duration?
        package var profile = OAuthProfile.generic
        package var accessTokens = OAuthAccessTokens.several

        package init(clientID: String) { self.clientID = clientID }
    }
}

/// Endpoints of an authorization server, as absolute URLs.
package struct OAuthEndpoints: Equatable, Sendable {
    /// RFC 6749 §3.2.
    package var token: String?
    /// RFC 7009.
    package var revocation: String?
    /// RFC 8628 §3.1.
    package var deviceAuthorization: String?
    /// RFC 6749 §3.1.
    package var authorization: String?
    /// RFC 9126.
    package var pushedAuthorization: String?

    package init(token: String? = nil, revocation: String? = nil) {
        self.token = token
        self.revocation = revocation
    }

    /// Those that are there.
    package var all: [String] {
        [token, revocation, deviceAuthorization, authorization, pushedAuthorization].compactMap(\.self)
    }

    /// Those that fit; the others are left out.
    package func filter(_ fits: (String) -> Bool) -> OAuthEndpoints {
        func kept(_ endpoint: String?) -> String? { endpoint.flatMap { fits($0) ? $0 : nil } }
        var filtered = OAuthEndpoints(token: kept(token), revocation: kept(revocation))
        filtered.deviceAuthorization = kept(deviceAuthorization)
        filtered.authorization = kept(authorization)
        filtered.pushedAuthorization = kept(pushedAuthorization)
        return filtered
    }

    /// Those of `others` where there is none here.
    package func filled(from others: OAuthEndpoints) -> OAuthEndpoints {
        var filled = self
        filled.token = token ?? others.token
        filled.revocation = revocation ?? others.revocation
        filled.deviceAuthorization = deviceAuthorization ?? others.deviceAuthorization
        filled.authorization = authorization ?? others.authorization
        filled.pushedAuthorization = pushedAuthorization ?? others.pushedAuthorization
        return filled
    }
}

/// How the client shows the authorization server who it is (RFC 6749 §2.3).
package enum ClientAuthentication: Equatable, Sendable {
    /// A public client: `client_id` alone.
    case none
    /// HTTP Basic. `isRaw`: without the form encoding that RFC 6749 §2.3.1 asks for.
    case basic(secretFile: String, isRaw: Bool)
    /// HTTP Basic, with `client_id` in the form as well.
    case basicWithID(secretFile: String)
    /// `client_secret` in the form.
    case post(secretFile: String)
    /// An assertion that Lanyard signs (RFC 7523 §2.2).
    case privateKeyJWT(ClientKey)
    /// An assertion that another program writes. The file is read at each call.
    case assertion(file: String, type: String)
    /// The client certificate of the TLS connection (RFC 8705 §2).
    case tls

    /// `client_assertion_type` of a JSON Web Token (RFC 7523 §2.2).
    package static let jwtAssertionType = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"

    /// The file that the authentication reads; nil: none.
    package var file: String? {
        switch self {
        case .none, .tls: nil
        case .basic(let file, _), .basicWithID(let file), .post(let file), .assertion(let file, _): file
        case .privateKeyJWT(let key): key.file
        }
    }

    /// The configuration's key of the file; nil: there is none.
    package var fileKey: String? {
        switch self {
        case .none, .tls: nil
        case .basic, .basicWithID, .post: "client_secret_file"
        case .assertion: "client_assertion_file"
        case .privateKeyJWT: "client_key.file"
        }
    }
}

/// The key that signs a client's assertions.
package struct ClientKey: Equatable, Sendable {
    /// What `aud` of the assertion names.
    package enum Audience: Equatable, Sendable {
        /// The issuer; the token endpoint if none is configured.
        case issuer
        case tokenEndpoint
        /// That which the assertion is sent to.
        case endpoint
        case value(String)
    }

    /// The key in PEM, perhaps with its certificate.
    package var file: String
    /// `kid`; nil: none.
    package var id: String?
    package var algorithm = SigningAlgorithm.es256
    package var audience = Audience.issuer

    package init(file: String) { self.file = file }
}

/// How a JSON Web Token is signed (RFC 7518 §3.1, RFC 8037 §3.1).
package enum SigningAlgorithm: String, Sendable, CaseIterable {
    case rs256 = "RS256"
    case rs384 = "RS384"
    case rs512 = "RS512"
    case ps256 = "PS256"
    case ps384 = "PS384"
    case ps512 = "PS512"
    case es256 = "ES256"
    case es384 = "ES384"
    case es512 = "ES512"
    case edDSA = "EdDSA"
}

/// A form field of token calls.
package struct OAuthParameter: Equatable, Sendable {
    /// Names that Lanyard itself sends: an operator's field with such a name would contradict it.
    package static let reserved: Set<String> = [
        "grant_type", "client_id", "client_secret", "client_assertion", "client_assertion_type", "assertion", "scope",
        "refresh_token", "username", "password", "code", "code_verifier", "redirect_uri", "device_code",
        "subject_token", "subject_token_type", "actor_token", "actor_token_type", "requested_token_type",
        "code_challenge", "code_challenge_method", "nonce", "request_uri", "response_type", "state",
    ]

    package var name: String
    package var value: String

    package init(_ name: String, _ value: String) {
        self.name = name
        self.value = value
    }
}

/// A field of the head of token calls.
package struct OAuthTokenField: Equatable, Sendable {
    package enum Value: Equatable, Sendable {
        case text(String)
        /// The content of a file, which is read at each call.
        case file(String)
    }

    package var name: String
    package var value: Value

    package init(_ name: String, _ value: Value) {
        self.name = name
        self.value = value
    }
}

/// How many access tokens of one session are valid at a time.
package enum OAuthAccessTokens: String, Sendable, CaseIterable {
    /// Each until its own end.
    case several
    /// A refresh ends the former one: no route may ask for a further one.
    case single
}

/// Whose responses a server's rows of quirks describe (docs/reference/oauth-servers.md).
package enum OAuthProfile: String, Sendable, CaseIterable {
    case generic, entra, okta, auth0, keycloak, cognito, zitadel, google, github, salesforce, slack
}
