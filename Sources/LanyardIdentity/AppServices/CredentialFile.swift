import LanyardFoundations
import LanyardSettings

/// The file of a configured login, as `lanyard check` judges its content before anything is sent.
package struct CredentialFile: Equatable, Sendable {
    package let path: String
    private let format: CredentialFormat

    /// The file of a user's login; nil: the login has none, or its content may be anything.
    package static func of(_ user: UserSettings) -> CredentialFile? {
        guard let login = user.login, let path = login.secretFile, let kind = AppServicesLoginKind(of: login.kind)
        else {
            return nil
        }
        return CredentialFile(path: path, format: kind.format)
    }

    /// What is wrong with the content, with the file's name: a login with it is refused before it is sent. Blocks as long as the disk does.
    ///
    /// - Returns: nil if it can be sent. A file that cannot be read at all is nil, too: the configuration's own check reports it.
    package func finding() -> String? {
        guard let content = try? SecretFile.read(path, bytesMax: SecretFile.credentialBytesMax) else { return nil }
        let secret = SecretText.content(of: content.secret, as: format.form)
        guard secret.count > 0 else { return nil }
        if let defect = format.defect(of: secret) { return defect.message(path: path) }
        guard secret.withBytes({ SecretText.placeOfNoUTF8(in: $0) }) != nil else { return nil }
        return SecretFile.ReadError.unfit(CredentialFormat.encodingDefect).message(path: path)
    }
}
