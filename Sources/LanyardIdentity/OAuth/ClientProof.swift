import LanyardFoundations
import LanyardSessionInterface
import LanyardSettings

/// How one token call shows who the client is: form fields, a field of the head, or neither.
struct ClientProof: Sendable {
    /// Of the head; nil: none.
    private(set) var field: CurlRequest.SecretField?
    private var formFields: [(name: String, value: Secret)] = []
    private let clientID: String
    private let sendsClientID: Bool
    /// What the client's file holds; nil: the client has no file.
    let secret: Secret?

    /// - Parameters:
    ///   - content: of the file of the authentication; nil if it has none.
    ///   - endpoint: that of the call.
    ///   - tokenEndpoint: that names the server, also for a call that goes to another one.
    ///   - now: by the service's clock.
    ///   - isClientNamed: false: `client_id` alone is not sent.
    /// - Throws: `credentialUnavailable` with the path and the remedy, or `credentialDelayed`.
    init(
        of settings: IdentitySettings.OAuth, _ content: FileSnapshot.Outcome?, for endpoint: String,
        tokenEndpoint: String, at now: WallTime, isClientNamed: Bool = true
    ) throws(IdentityError) {
        clientID = settings.clientID
        secret = try Self.secret(settings.authentication, content)
        switch settings.authentication {
        case .none: sendsClientID = isClientNamed
        case .tls: sendsClientID = true
        case .basic(_, let isRaw):
            sendsClientID = false
            field = CurlRequest.SecretField(
                name: "Authorization", value: Self.basic(settings.clientID, secret, isRaw: isRaw))
        case .post:
            sendsClientID = true
            formFields = secret.map { [("client_secret", $0)] } ?? []
        case .assertion(_, let type):
            // RFC 7521 §4.2: the assertion names the client.
            sendsClientID = true
            formFields =
                [("client_assertion_type", Self.text(type))] + (secret.map { [("client_assertion", $0)] } ?? [])
        case .privateKeyJWT(let key):
            sendsClientID = true
            let assertion = try Self.assertion(
                settings, key, secret, Self.audience(key, settings, endpoint, tokenEndpoint), now)
            formFields = [
                ("client_assertion_type", Self.text(ClientAuthentication.jwtAssertionType)),
                ("client_assertion", assertion),
            ]
        }
    }

    /// Adds the client's form fields.
    func write(into form: inout FormBody) {
        if sendsClientID { form.append("client_id", clientID) }
        for (name, value) in formFields { form.append(name, value) }
    }

    /// What an operator may look at if the client is refused: the form encoding of Basic changes these characters.
    static func hint(_ settings: IdentitySettings.OAuth, _ secret: Secret?) -> String? {
        guard case .basic(_, false) = settings.authentication, let secret else { return nil }
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

    private static func text(_ text: String) -> Secret {
        var buffer = SecretBuffer(capacity: text.utf8.count)
        buffer.append(text)
        return buffer.seal()
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
