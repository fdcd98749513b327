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

    /// The same with what other requests of the call or the login have sent.
    func sending(_ others: [Secret]) -> ClientProof {
        var proof = self
        for secret in others where !proof.sent.contains(secret) { proof.sent.append(secret) }
        return proof
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
