import LanyardFoundations
import LanyardSessionInterface
import LanyardSettings

/// The assertion of a login that Lanyard signs itself (RFC 7523 §2.1), and the key file that it comes from.
enum SignedAssertion {
    /// What an assertion names besides its own settings.
    struct Context {
        let clientID: String
        /// As it is configured; nil: none.
        let issuer: String?
        /// Of the token call.
        let endpoint: String
        /// The one that names the server (`FoundEndpoints.namedTokenEndpoint`).
        let tokenEndpoint: String
        let scopes: [String]
        /// By the service's clock.
        let now: WallTime
    }

    /// - Parameters:
    ///   - key: the content of the key file.
    /// - Throws: what is wrong with the file; it follows the file's name.
    static func make(
        _ kind: LoginKind, _ settings: AssertionSettings, key: Secret, in context: Context
    ) throws(KeyFileError) -> Secret {
        let google = kind == .googleKey ? try GoogleKeyFile(key) : nil
        let (issuer, subject) = names(settings, google, clientID: context.clientID)
        var token = JSONWebToken(
            issuer: issuer, subject: subject, audience: google?.tokenURL ?? audience(settings.audience, context))
        token.lifetime = Int64(settings.lifetime.inSeconds)
        if settings.scopePlace != .form, !context.scopes.isEmpty {
            token.claims.append(("scope", context.scopes.joined(separator: " ")))
        }
        token.claims += settings.claims.map { ($0.name, $0.value) }
        do throws(SigningKey.KeyError) {
            let signer = try SigningKey(google?.privateKey ?? key, for: settings.algorithm)
            let keyID = settings.keyID ?? google?.keyID
            guard let text = token.signed(by: signer, settings.algorithm, keyID: keyID, at: context.now) else {
                throw .notAKey
            }
            return text
        } catch {
            throw KeyFileError(message: error.message)
        }
    }

    /// The account for which such an assertion asks; nil: the key file cannot be used.
    static func account(
        _ kind: LoginKind, _ settings: AssertionSettings, key: Secret, clientID: String
    ) -> AccountFingerprint? {
        let google = kind == .googleKey ? try? GoogleKeyFile(key) : nil
        guard kind != .googleKey || google != nil else { return nil }
        let (issuer, subject) = names(settings, google, clientID: clientID)
        return .signed(by: clientID, issuer: issuer, subject: subject)
    }

    private static func names(
        _ settings: AssertionSettings, _ google: GoogleKeyFile?, clientID: String
    ) -> (issuer: String, subject: String?) {
        let issuer = settings.issuer ?? google?.clientEmail ?? clientID
        return (issuer, settings.subject ?? (google == nil ? issuer : nil))
    }

    private static func audience(_ audience: ClientKey.Audience, _ context: Context) -> String {
        switch audience {
        case .issuer: context.issuer ?? context.tokenEndpoint
        case .tokenEndpoint: context.tokenEndpoint
        case .endpoint: context.endpoint
        case .value(let text): text
        }
    }
}

/// Why a key file cannot be used, following the file's name. A type of its own: the caller knows that name.
struct KeyFileError: Error, Equatable {
    let message: String
}

/// The JSON key file of a service account of Google.
struct GoogleKeyFile {
    let clientEmail: String
    /// PEM.
    let privateKey: Secret
    let keyID: String?
    /// Where the assertion goes, which is also its audience.
    let tokenURL: String

    private static let textMax = 2048

    init(_ content: Secret) throws(KeyFileError) {
        let members = content.withBytes { Self.read($0) }
        guard let members else {
            throw KeyFileError(message: "is no JSON key file of a service account (Google Cloud: Keys, Add key, JSON)")
        }
        let type = members.texts["type"]
        guard type == "service_account" else {
            throw KeyFileError(
                message:
                    "has the type \(type.map { ConfigurableWord.shown($0) } ?? "(none)"), and only a key of the type "
                    + "service_account signs assertions")
        }
        guard let clientEmail = members.texts["client_email"] else {
            throw KeyFileError(message: "has no client_email")
        }
        guard let privateKey = members.key else { throw KeyFileError(message: "has no private_key") }
        guard let tokenURL = members.texts["token_uri"] else { throw KeyFileError(message: "has no token_uri") }
        (self.clientEmail, self.privateKey, self.tokenURL) = (clientEmail, privateKey, tokenURL)
        keyID = members.texts["private_key_id"]
    }

    private static func read(_ bytes: UnsafeRawBufferPointer) -> (texts: [String: String], key: Secret?)? {
        var reader = JSONReader(bytes)
        var (texts, key): ([String: String], Secret?) = ([:], nil)
        do throws(JSONError) {
            guard try reader.next() == .objectStart else { return nil }
            while case .name(let name) = try reader.next() {
                let names: [StaticString] = ["type", "client_email", "private_key", "private_key_id", "token_uri"]
                guard let known = names.first(where: { JSONText.matches(name, of: bytes, $0) }) else {
                    try reader.skipValue()
                    continue
                }
                guard case .string(let text) = try reader.next() else { return nil }
                if known.description == "private_key" {
                    key = JSONText.secret(text, of: bytes, countMax: SecretFile.bytesMax)
                } else {
                    var characters: [UInt8] = []
                    JSONText.decode(text, of: bytes) { if characters.count <= textMax { characters.append($0) } }
                    guard 1...textMax ~= characters.count, characters.allSatisfy({ 0x21..<0x7f ~= $0 }) else {
                        continue
                    }
                    texts[known.description] = String(decoding: characters, as: UTF8.self)
                }
            }
            return try reader.next() == .end ? (texts, key) : nil
        } catch {
            return nil
        }
    }
}

/// A word of a file that is shown in an error.
private enum ConfigurableWord {
    /// The word if it is one, so that no part of a secret that stands in a wrong place is shown.
    static func shown(_ text: String) -> String {
        text.utf8.count <= 40 && text.utf8.allSatisfy { $0 == UInt8(ascii: "_") || 0x61...0x7a ~= $0 }
            ? text : "(another)"
    }
}
