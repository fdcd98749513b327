import LanyardFoundations
import TestSupport
import Testing

@testable import LanyardIdentity
@testable import LanyardSessionInterface
@testable import LanyardSettings

/// Every reader of a response, with each optional member as services write it: absent, null, empty, text, number, nested. None of them
/// makes the rest of the response unreadable.
@Suite("Identity: optional members of responses") struct OptionalMemberTests {
    /// nil: the member is absent.
    private static let values: [String?] =
        [nil, "null", "\"\"", "true", "false"] + texts.map(\.self) + numbers.map(\.self) + containers.map(\.self)
    private static let containers = ["{}", #"{"a":[1,{"b":2}]}"#, "[]", #"["a",{"b":[]}]"#]
    private static let numbers = ["7", "0", "-1", "7.5"]
    private static let texts = ["\"text\"", "\"7\""]

    /// A reader, by what it makes of a response; nil: it cannot be used.
    private struct Reader {
        let name: String
        /// The required members.
        let required: String
        /// Each optional member, with the values of it that make the response unusable: a token that would be lost, or an error.
        let optional: [String: [String]]
        let read: (String) -> String?
    }

    private static func response(_ status: Int, _ body: String) -> CurlResponse {
        CurlResponse(
            status: status, fields: CurlResponse.Fields(contentType: "application/json"), body: Tokens.secret(body),
            requestStartedAt: .now)
    }

    private static func bytes<Result>(_ body: String, _ read: (UnsafeRawBufferPointer) -> Result) -> Result {
        Array(body.utf8).withUnsafeBytes(read)
    }

    private static var readers: [Reader] { oauth + appServices + tokens }

    private static var oauth: [Reader] {
        [
            Reader(
                name: "token endpoint", required: #""access_token":"opaque""#,
                optional: [
                    "token_type": texts, "expires_in": ["0", "-1"], "refresh_expires_in": [],
                    "refresh_token_expires_in": [], "scope": [], "id_token": [],
                    // A refused response would lose the access token as well.
                    "refresh_token": [], "unknown": [],
                ],
                read: { body in
                    let grant = OAuthGrant.make(
                        .refresh, response(200, body), keepsRefreshToken: true, lifetime: nil, profile: .generic)
                    return Tokens.text(try? grant.get().accessToken)
                }),
            Reader(
                name: "device authorization endpoint",
                required: #""device_code":"d","user_code":"u","verification_uri":"https://i/d","expires_in":60"#,
                optional: ["interval": [], "verification_uri_complete": [], "verification_url": [], "unknown": []],
                read: { body in
                    bytes(body) { bytes in
                        let read = try? DeviceResponse(bytes)
                        return read.flatMap { 1...7 ~= $0.interval.inSeconds ? $0.userCode : nil }
                    }
                }),
            Reader(
                name: "pushed authorization request endpoint", required: #""request_uri":"urn:r""#,
                optional: ["expires_in": [], "unknown": []], read: { bytes($0) { PushedRequest($0)?.uri } }),
            Reader(
                name: "metadata", required: #""issuer":"https://i","token_endpoint":"https://i/t""#,
                optional: [
                    "revocation_endpoint": [], "device_authorization_endpoint": [], "authorization_endpoint": [],
                    "pushed_authorization_request_endpoint": [], "introspection_endpoint": [], "jwks_uri": [],
                    "require_pushed_authorization_requests": [], "mtls_endpoint_aliases": [], "unknown": [],
                    "authorization_response_iss_parameter_supported": [],
                ],
                read: { body in
                    bytes(body) { bytes in try? OAuthMetadata(bytes, issuer: "https://i").endpoints.token }
                }),
        ]
    }

    private static var appServices: [Reader] {
        [
            Reader(
                name: "App Services session", required: #""access_token":"\#(Tokens.access())""#,
                optional: [
                    "refresh_token": [], "user_id": [], "device_id": [], "expires_in": ["0", "-1"], "unknown": [],
                ],
                read: { body in
                    let grant = AppServicesGrant.make(.refresh, response(200, body), secrets: [])
                    return Tokens.text(try? grant.get().accessToken)
                }),
            Reader(
                name: "App Services profile", required: #""identities":[{"id":"i","provider_type":"p"}]"#,
                optional: ["user_id": [], "type": [], "data": [], "unknown": []],
                read: { body in
                    let text = bytes(body) { ProfileReader.identities($0) }.flatMap { Tokens.text($0) }
                    return text?.contains(#"[{"id":"i","provider_type":"p"}]"#) == true ? "i" : nil
                }),
            Reader(
                name: "App Services key", required: #""_id":"i","name":"n""#,
                // Whether a key is disabled is not guessed.
                optional: ["key": [], "unknown": [], "disabled": ["\"\""] + texts + numbers + containers],
                read: { body in
                    bytes("[\(body)]") { APIKeyReader.list($0) } == nil ? nil : "a list"
                }),
        ]
    }

    private static var tokens: [Reader] {
        [
            Reader(
                name: "GitHub App", required: #""token":"ghs_x","expires_at":"2027-01-01T10:00:00Z""#,
                optional: ["message": [], "permissions": [], "unknown": []],
                read: { body in
                    let grant = GitHubAppResponse.grant(
                        in: .success(response(201, body)), without: [], now: WallTime(seconds: 1_798_797_000))
                    return Tokens.text(try? grant.get().accessToken)
                }),
            Reader(
                name: "claims of an access token", required: #""end":1"#,
                optional: ["exp": [], "iat": [], "unknown": []],
                read: { JWTClaims(of: Tokens.secret(Tokens.jwt($0))) == nil ? nil : "a JWT" }),
            Reader(
                name: "claims of an ID token", required: #""iss":"i","aud":"c","exp":2000,"iat":1000"#,
                // What names another client, or is no text where one decides.
                optional: [
                    "azp": texts + numbers + containers + ["true", "false"], "sub": [], "tid": [], "unknown": [],
                ],
                read: { body in
                    let token = IDToken(Tokens.secret(Tokens.jwt(body)))
                    let time = WallTime(seconds: 1500)
                    return token.map { $0.defect(clientID: "c", issuer: nil, nonce: nil, now: time) } == .some(nil)
                        ? "an ID token" : nil
                }),
        ]
    }

    @Test("whatever an optional member holds, the required ones behind and before it are read")
    func table() {
        for reader in Self.readers {
            let plain = reader.read("{\(reader.required)}")
            #expect(plain != nil, "\(reader.name)")
            for (member, refused) in reader.optional {
                for value in Self.values {
                    let line = value.map { #""\#(member)":\#($0)"# }
                    let isRefused = value.map(refused.contains) ?? false
                    for members in [[line, reader.required], [reader.required, line]] {
                        let body = "{\(members.compactMap(\.self).joined(separator: ",")),\"last\":{}}"
                        #expect(reader.read(body) == (isRefused ? nil : plain), "\(reader.name): \(body)")
                    }
                }
            }
        }
    }

    @Test(
        "an optional endpoint that is no URL counts as absent; none leads from https to http, and the token endpoint must be one"
    )
    func endpoints() throws {
        func read(_ members: String) -> Result<OAuthMetadata, OAuthMetadata.MetadataError> {
            let body = #"{"issuer":"https://i","token_endpoint":"https://i/t",\#(members)}"#
            return Self.bytes(body) { bytes in
                Result { () throws(OAuthMetadata.MetadataError) in try OAuthMetadata(bytes, issuer: "https://i") }
            }
        }
        for value in ["x", "/rev", "ftp://i/r", "https://", "mailto:a@b"] {
            let metadata = try read(
                #""revocation_endpoint":"\#(value)","authorization_endpoint":"https://i/a","mtls_endpoint_aliases":"#
                    + #"{"token_endpoint":"\#(value)","revocation_endpoint":"https://i/r"}"#
            ).get()
            #expect(
                metadata.endpoints.revocation == nil && metadata.endpoints.authorization == "https://i/a", "\(value)")
            #expect(metadata.aliases.token == nil && metadata.aliases.revocation == "https://i/r", "\(value)")
        }
        for member in ["revocation_endpoint", "device_authorization_endpoint", "authorization_endpoint"] {
            #expect(read(#""\#(member)":"http://i/x""#).failure?.message.contains("from https to http") == true)
        }
        let unusable = Self.bytes(#"{"issuer":"https://i","token_endpoint":"x"}"#) { bytes in
            Result { () throws(OAuthMetadata.MetadataError) in try OAuthMetadata(bytes, issuer: "https://i") }
        }
        #expect(unusable.failure?.message == "its token_endpoint is no http or https URL")
    }

    @Test("a refresh token that is no text counts as absent, and the access token serves")
    func refreshToken() throws {
        for value in ["7", "true", "{}", "[]", #"["r"]"#, "null", "\"\""] {
            let body = #"{"access_token":"opaque","refresh_token":\#(value),"expires_in":60}"#
            let grant = try OAuthGrant.make(
                .refresh, Self.response(200, body), keepsRefreshToken: true, lifetime: nil, profile: .generic
            ).get()
            #expect(grant.refreshToken == nil && Tokens.text(grant.accessToken) == "opaque", "\(value)")
        }
    }

    @Test("a null list of identities is an empty one, and a null flag of a key is false")
    func empty() {
        let profile = Self.bytes(#"{"user_id":"u","identities":null,"type":"normal"}"#) { ProfileReader.identities($0) }
        #expect(Tokens.text(profile) == #"{"user_id":"u","identities":[]}"#)
        let keys = Self.bytes(#"[{"_id":"i","name":"n","disabled":null,"key":null}]"#) { APIKeyReader.list($0) }
        #expect(Tokens.text(keys) == #"{"api_keys":[{"id":"i","name":"n","disabled":false}]}"#)
    }

    @Test("exp and iat of an ID token that are no numbers count as absent, and the login is refused for that")
    func idTokenTimes() throws {
        for (claims, defect) in [
            (#""exp":"2000","iat":1000"#, "it has expired; compare the clocks"),
            (#""exp":2000,"iat":"1000""#, "its iat is missing or in the future; compare the clocks"),
        ] {
            let token = try #require(IDToken(Tokens.secret(Tokens.jwt(#"{"iss":"i","aud":"c",\#(claims)}"#))))
            #expect(token.defect(clientID: "c", issuer: nil, nonce: nil, now: WallTime(seconds: 1500)) == defect)
        }
    }

    @Test("types of bearer tokens by their names of servers; a token that must be proven stays refused")
    func types() {
        func isTaken(_ type: String) -> Bool {
            let body = #"{"access_token":"opaque","token_type":"\#(type)","expires_in":60}"#
            let grant = OAuthGrant.make(
                .login, Self.response(200, body), keepsRefreshToken: true, lifetime: nil, profile: .generic)
            return (try? grant.get()) != nil
        }
        let bearers = [
            "Bearer", "bearer", "BEARER", "BearerToken", "bearertoken", "jwt-bearer", "JWT-Bearer", "user", "bot",
        ]
        for type in bearers { #expect(isTaken(type), "\(type)") }
        for type in ["DPoP", "dpop", "mac", "N_A", "PoP", "jwt", "Bearer2", "token"] {
            #expect(!isTaken(type), "\(type)")
        }
    }
}
