import LanyardFoundations
import LanyardSessionInterface
import Logging

/// The `static` identity: the content of a file is the token. The file is read again when it changes.
///
/// The token has no refresh and no expiry.
package final class StaticIdentity: TokenFeed {
    private let name: String
    private let path: String
    private let files: FileReader
    private let loop: EventLoop
    private let warning: SecretFileWarning
    private let logger = Logger(label: "lanyard.identity")
    /// Belongs to the loop's queue, as `last` does. `start` and `stop` switch to it.
    private nonisolated(unsafe) var watch: FileWatch?
    private nonisolated(unsafe) var last: Result<Secret, IdentityError>?

    /// Does nothing yet.
    package init(
        name: String, tokenFile: String, by files: FileReader = .ofCredentials(), on loop: EventLoop,
        warning: SecretFileWarning = SecretFileWarning()
    ) {
        self.name = name
        self.files = files
        self.warning = warning
        path = tokenFile
        self.loop = loop
    }

    package func start(_ onChange: @escaping @Sendable (Result<Secret, IdentityError>) -> Void) {
        loop.post { [self] in
            guard watch == nil else { return }
            let watch = FileWatch(path, by: files, on: loop) { [weak self] in self?.receive($0, onChange) }
            self.watch = watch
            watch.start()
        }
    }

    package func stop() {
        loop.post { [self] in watch?.stop() }
    }

    deinit { watch?.stop() }

    private func receive(
        _ read: FileWatch.Outcome, _ onChange: (Result<Secret, IdentityError>) -> Void
    ) {
        loop.assertIsCurrent()
        let outcome = validate(read)
        guard outcome != last else { return }
        last = outcome
        onChange(outcome)
    }

    private func validate(_ read: FileWatch.Outcome) -> Result<Secret, IdentityError> {
        switch read {
        case .failure(let error): return .failure(unavailable(error))
        case .success(let content):
            if content.isWorldReadable { warning.warnOnce(path, identity: name, logger) }
            let token = SecretText.token(in: content.secret)
            guard BearerToken.isValid(token) else {
                let finding = SecretText.finding(in: token, as: .token).map { "\($0): it " } ?? ""
                return .failure(
                    unavailable(
                        .unfit(finding + "does not hold a bearer token: letters, digits and -._~+/= on one line")))
            }
            guard token.count <= TokenReader.tokenBytesMax else {
                return .failure(unavailable(.unfit("is larger than 32 KiB; a token has at most that many bytes")))
            }
            return .success(token)
        }
    }

    private func unavailable(_ error: SecretFile.ReadError) -> IdentityError {
        IdentityError(.credentialUnavailable, message: error.message(path: path)).explained(nil)
    }
}
