import LanyardFoundations
import LanyardSessionInterface
import Logging

/// The `static` identity: the content of a file is the token. The file is read again when it changes.
///
/// The token has no refresh and no expiry. `RenewedSecretFile` says for how long a former one serves.
package final class StaticIdentity: TokenFeed {
    private let name: String
    private let path: String
    private let warning: SecretFileWarning
    private let logger = Logger(label: "lanyard.identity")
    private let file: RenewedSecretFile

    /// Does nothing yet.
    package init(
        name: String, tokenFile: String, by files: FileReader = .ofCredentials(), on loop: EventLoop,
        warning: SecretFileWarning = SecretFileWarning()
    ) {
        self.name = name
        self.warning = warning
        path = tokenFile
        file = RenewedSecretFile(tokenFile, as: .token, by: files, on: loop) { [logger] content in
            if content.isWorldReadable { warning.warnOnce(tokenFile, identity: name, logger) }
        }
    }

    package func start(_ onChange: @escaping @Sendable (Result<Secret, IdentityError>) -> Void) {
        file.start { [weak self] outcome in
            guard let self else { return }
            onChange(result(of: outcome))
        }
    }

    package func stop() { file.stop() }

    private func result(of outcome: RenewedSecretFile.Outcome) -> Result<Secret, IdentityError> {
        switch outcome {
        case .secret(let token):
            noteText(of: token)
            return .success(token)
        case .kept(let error):
            let message = error.message(path: path) + "; " + RenewedSecretFile.keptMessage(of: "token")
            return .failure(IdentityError(.credentialDelayed, message: message).explained(nil))
        case .none(let error):
            let message = error.message(path: path)
            return .failure(IdentityError(.credentialUnavailable, message: message).explained(nil))
        }
    }

    /// What deserves a warning, although the token is sent as it is.
    private func noteText(of token: Secret) {
        if let finding = SecretText.finding(in: token, as: .token) {
            warning.warnOnce(path, finding, identity: name, logger)
        }
        warning.warnOfEnd(path, StaticTokenEnd(of: token), identity: name, logger)
    }
}
