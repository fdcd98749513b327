import LanyardFoundations
import LanyardSessionInterface
import LanyardSettings

/// How one token call shows who the client is: form fields, a field of the head, or neither.
struct ClientProof: Sendable {
    /// Of the head; nil: none.
    private(set) var field: CurlRequest.SecretField?
    private var formFields: [(name: String, value: Secret)] = []
    /// Before the assertion in the form; nil: there is none.
    private var assertionType: String?
    private let clientID: String
    private var sendsClientID: Bool
    private let sendsEmptySecret: Bool
    /// What the form has besides.
    let wanted: WantedClientFields
    /// What the client's file holds; nil: the client has no file.
    let secret: Secret?
    /// The secrets of the whole request. No error may show one of them, or a piece of one.
    var sent: [Secret] = []

    /// - Parameters:
    ///   - content: of the file of the authentication; nil if it has none.
    ///   - endpoint: that of the call.
    ///   - tokenEndpoint: that names the server, also for a call that goes to another one.
    ///   - now: by the service's clock.
    ///   - isClientNamed: false: `client_id` alone is not sent.
    ///   - wanted: what the server wants in the form besides.
    /// - Throws: `credentialUnavailable` with the path and the remedy, or `credentialDelayed`.
    init(
        of settings: IdentitySettings.OAuth, _ content: FileSnapshot.Outcome?, for endpoint: String,
        tokenEndpoint: String, at now: WallTime, isClientNamed: Bool = true,
        wanted: WantedClientFields = WantedClientFields()
    ) throws(IdentityError) {
        clientID = settings.clientID
        sendsEmptySecret = wanted.emptySecret
        self.wanted = wanted
        secret = try Self.secret(settings.authentication, content)
        switch settings.authentication {
        case .none: sendsClientID = isClientNamed
        case .tls: sendsClientID = true
        case .basic(_, let isRaw):
            sendsClientID = false
            field = CurlRequest.SecretField(
                name: "Authorization", value: Self.basic(settings.clientID, secret, isRaw: isRaw))
        case .basicWithID:
            sendsClientID = true
            field = CurlRequest.SecretField(
                name: "Authorization", value: Self.basic(settings.clientID, secret, isRaw: false))
        case .post:
            sendsClientID = true
            formFields = secret.map { [("client_secret", $0)] } ?? []
        case .assertion(_, let type):
            // RFC 7521 §4.2: the assertion names the client.
            sendsClientID = true
            assertionType = type
            formFields = secret.map { [("client_assertion", $0)] } ?? []
        case .privateKeyJWT(let key):
            sendsClientID = true
            let assertion = try Self.assertion(
                settings, key, secret, Self.audience(key, settings, endpoint, tokenEndpoint), now)
            assertionType = ClientAuthentication.jwtAssertionType
            formFields = [("client_assertion", assertion)]
        }
        if wanted.id { sendsClientID = true }
    }

    /// Adds the client's form fields.
    func write(into form: inout FormBody) {
        if sendsClientID { form.append("client_id", clientID) }
        if let assertionType { form.append("client_assertion_type", assertionType) }
        for (name, value) in formFields { form.append(name, value) }
        if sendsEmptySecret { form.append("client_secret", "") }
    }

    /// What an operator may look at if the client is refused: the form encoding of Basic changes these characters.
    static func hint(_ settings: IdentitySettings.OAuth, _ secret: Secret?) -> String? {
        switch settings.authentication {
        case .basic(_, false), .basicWithID: break
        case .basic(_, true), .none, .post, .privateKeyJWT, .assertion, .tls: return nil
        }
        guard let secret else { return nil }
        let isPlain = secret.withBytes { bytes in
            var buffer = SecretBuffer()
            FormBody.encode(bytes, into: &buffer)
            return buffer.withBytes { $0.elementsEqual(bytes) }
        }
        return isPlain
            ? nil
            : "the secret has characters that Basic authentication encodes (RFC 6749): try client_authentication: basic_raw"
    }

    private static func secret(
        _ authentication: ClientAuthentication, _ content: FileSnapshot.Outcome?
    ) throws(IdentityError) -> Secret? {
        guard let path = authentication.file else { return nil }
        switch content ?? .failure(.delayed) {
        case .success(let content):
            let secret: Secret =
                if case .privateKeyJWT = authentication { content.secret } else { SecretText.token(in: content.secret) }
            guard secret.count > 0 else {
                throw IdentityError(
                    .credentialUnavailable, message: SecretFile.ReadError.empty.message(path: path))
            }
            return secret
        case .failure(let error):
            throw IdentityError(
                error.isTransient ? .credentialDelayed : .credentialUnavailable, message: error.message(path: path))
        }
    }

    /// RFC 6749 §2.3.1: both parts are form encoded before Base64, which servers do not all undo.
    private static func basic(_ clientID: String, _ secret: Secret?, isRaw: Bool) -> Secret {
        var pair = SecretBuffer()
        if isRaw { pair.append(clientID) } else { FormBody.encode(clientID, into: &pair) }
        pair.append(UInt8(ascii: ":"))
        secret?.withBytes { if isRaw { pair.append($0) } else { FormBody.encode($0, into: &pair) } }
        var value = SecretBuffer()
        value.append("Basic ")
        pair.withBytes { Base64.encode($0, into: &value) }
        return value.seal()
    }

    private static func audience(
        _ key: ClientKey, _ settings: IdentitySettings.OAuth, _ endpoint: String, _ tokenEndpoint: String
    ) -> String {
        switch key.audience {
        case .issuer: settings.issuer ?? tokenEndpoint
        case .tokenEndpoint: tokenEndpoint
        case .endpoint: endpoint
        case .value(let text): text
        }
    }

    private static func assertion(
        _ settings: IdentitySettings.OAuth, _ key: ClientKey, _ pem: Secret?, _ audience: String, _ now: WallTime
    ) throws(IdentityError) -> Secret {
        let token = JSONWebToken(issuer: settings.clientID, subject: settings.clientID, audience: audience)
        do throws(SigningKey.KeyError) {
            guard let pem else { throw .notAKey }
            let signer = try SigningKey(pem, for: key.algorithm)
            guard let text = token.signed(by: signer, key.algorithm, keyID: key.id, at: now) else { throw .notAKey }
            return text
        } catch {
            throw IdentityError(
                .credentialUnavailable, message: SecretFile.ReadError.unfit(error.message).message(path: key.file))
        }
    }
}

/// Fields of the client that a server wants in the form although they prove nothing: servers on the `mcp` SDK do. A call that may lack one
/// is repeated once with it. What is accepted then is sent from the first in later calls.
struct WantedClientFields: Equatable {
    /// `client_id` beside HTTP Basic, whose head names the client already.
    var id = false
    /// An empty `client_secret` of a revocation, whose client has none or shows it elsewhere.
    var emptySecret = false

    /// With these fields the call is repeated: an error of the server names one that was not sent. nil: it names none. Each server has its
    /// own words for that, so the field's name alone counts, in whatever member or page.
    ///
    /// - Parameter isRevocation: of a call at the revocation endpoint.
    func trial(
        after outcome: Result<CurlResponse, CurlError>, of settings: IdentitySettings.OAuth, isRevocation: Bool
    ) -> WantedClientFields? {
        guard case .success(let response) = outcome, Self.mayLackField(response, settings.profile) else { return nil }
        var wanted = self
        response.body.withBytes { body in
            if settings.takesClientID, !id, Self.names("id", in: body) { wanted.id = true }
            if isRevocation, settings.takesEmptySecret, !emptySecret, Self.names("secret", in: body) {
                wanted.emptySecret = true
            }
        }
        return wanted == self ? nil : wanted
    }

    /// A form with these fields was taken: the call was successful, or the server speaks of the grant, and no more of the client.
    func isAccepted(_ outcome: Result<CurlResponse, CurlError>, _ profile: OAuthProfile) -> Bool {
        guard case .success(let response) = outcome else { return false }
        let decoded = response.body.withBytes { OAuthResponse($0) }
        if 200..<300 ~= response.status, !decoded.hasError { return true }
        guard 200..<300 ~= response.status || 400..<500 ~= response.status else { return false }
        switch OAuthErrorRow.match(decoded, status: response.status, profile: profile) {
        case .grant, .user: return true
        case .client, .request, .policy, .retry, nil:
            return ["authorization_pending", "slow_down"].contains(decoded.deviceError)
        }
    }

    /// A refusal that may be of the form: none of the grant or the user, and none that asks for another try.
    private static func mayLackField(_ response: CurlResponse, _ profile: OAuthProfile) -> Bool {
        let decoded = response.body.withBytes { OAuthResponse($0) }
        // A success that brings tokens beside an error is one, and the refresh token may be used up.
        let isErrorInSuccess =
            200..<300 ~= response.status && decoded.hasError && decoded.namesError && decoded.accessToken == nil
            && decoded.refreshToken == nil
        guard [400, 401, 403, 422].contains(response.status) || isErrorInSuccess else { return false }
        switch OAuthErrorRow.match(decoded, status: response.status, profile: profile) {
        case .client, .request, .policy, nil: return true
        case .grant, .user, .retry: return false
        }
    }

    /// Bytes of a body in which a field's name is looked for.
    private static let bodyBytesMax = 16 << 10

    /// Whether a body has the name `client_id` or `client_secret`, in any case of letters: `client-id`, "client ID", `clientId`.
    ///
    /// - Parameter end: of the name, in small letters.
    private static func names(_ end: StaticString, in body: UnsafeRawBufferPointer) -> Bool {
        let body = body.prefix(bodyBytesMax)
        func matches(_ word: StaticString, at start: Int) -> Bool {
            let word = UnsafeRawBufferPointer(start: word.utf8Start, count: word.utf8CodeUnitCount)
            guard start + word.count <= body.count else { return false }
            return word.indices.allSatisfy { place in
                let byte = body[start + place]
                return (0x41...0x5a ~= byte ? byte + 0x20 : byte) == word[place]
            }
        }
        return body.indices.contains { start in
            guard matches("client", at: start) else { return false }
            let separators: [StaticString] = ["_", "-", " ", "\\u005f", ""]
            return separators.contains { separator in
                let tail = start + 6 + separator.utf8CodeUnitCount
                guard matches(separator, at: start + 6), matches(end, at: tail) else { return false }
                let next = tail + end.utf8CodeUnitCount
                return next >= body.count || !(0x61...0x7a ~= body[next] | 0x20)
            }
        }
    }
}

extension IdentitySettings.OAuth {
    /// Basic by `auto`: the server may want more.
    fileprivate var takesClientID: Bool {
        if case .basic = authentication { isAuthenticationAutomatic } else { false }
    }

    /// The form has no secret.
    fileprivate var takesEmptySecret: Bool {
        switch authentication {
        case .none, .basic, .basicWithID, .tls: true
        case .post, .privateKeyJWT, .assertion: false
        }
    }
}
