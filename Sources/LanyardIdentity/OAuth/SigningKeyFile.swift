import LanyardFoundations
import LanyardSettings

/// A configured file with a key that signs, as `lanyard check` judges it before anything is signed.
package struct SigningKeyFile: Equatable, Sendable {
    package let path: String
    private let algorithm: SigningAlgorithm
    /// The JSON key file of a service account of Google.
    private let isGoogle: Bool

    private init(_ path: String, _ algorithm: SigningAlgorithm, isGoogle: Bool = false) {
        (self.path, self.algorithm, self.isGoogle) = (path, algorithm, isGoogle)
    }

    /// The key that an identity signs with; nil: it signs nothing.
    package static func of(_ identity: IdentitySettings) -> SigningKeyFile? {
        switch identity.kind {
        case .gitHubApp(let app): return SigningKeyFile(app.keyFile, .rs256)
        case .oauth(let client):
            guard case .privateKeyJWT(let key) = client.authentication else { return nil }
            return SigningKeyFile(key.file, key.algorithm)
        case .appServices, .staticToken, .lanyard: return nil
        }
    }

    /// The key that a user's login signs with; nil: it signs nothing.
    package static func of(_ user: UserSettings) -> SigningKeyFile? {
        guard let login = user.login, let path = login.secretFile, let assertion = login.assertion else { return nil }
        return SigningKeyFile(path, assertion.algorithm, isGoogle: login.kind == .googleKey)
    }

    /// What is wrong with the key in the file, after the file's name. Blocks as long as the disk does.
    ///
    /// - Returns: nil if it can sign. A file that cannot be read at all is nil, too: the configuration's own check reports it.
    package func finding() -> String? {
        let bytesMax = SecretFile.credentialBytesMax
        guard let content = try? SecretFile.read(path, bytesMax: bytesMax) else { return nil }
        do throws(KeyFileError) {
            let key = isGoogle ? try GoogleKeyFile(content.secret).privateKey : content.secret
            return Self.finding(in: key, for: algorithm)
        } catch {
            return error.message
        }
    }

    private static func finding(in key: Secret, for algorithm: SigningAlgorithm) -> String? {
        do throws(SigningKey.KeyError) {
            _ = try SigningKey(key, for: algorithm)
            return nil
        } catch {
            return error.message
        }
    }
}
