import Glibc
import LanyardFoundations
import LanyardSessionInterface
import Logging

/// The `static` identity: the content of a file is the token. The file is read again when it changes.
///
/// The token has no refresh and no expiry. A file that is empty, cut or missing is probably being written: its former content serves for
/// `TokenTransition.durationMax` more. A file of another owner or mode than before is not being written by the program that renews it.
package final class StaticIdentity: TokenFeed {
    /// What a read of the file means.
    private enum Finding {
        case token(Secret)
        /// The file is being written, as far as can be seen.
        case inTransition(SecretFile.ReadError)
        case unusable(SecretFile.ReadError)
    }

    /// The token that is in use, with the owner and the mode of its file.
    private struct Served {
        var token: Secret
        var stamp: FileSnapshot.Stamp?
    }

    private let name: String
    private let path: String
    private let files: FileReader
    private let loop: EventLoop
    private let warning: SecretFileWarning
    private let logger = Logger(label: "lanyard.identity")
    /// Belongs to the loop's queue, as all below does. `start` and `stop` switch to it.
    private nonisolated(unsafe) var watch: FileWatch?
    private nonisolated(unsafe) var last: Result<Secret, IdentityError>?
    private nonisolated(unsafe) var served: Served?
    /// While the file is in transition: the end of that time, and why the token is refused from then on.
    private nonisolated(unsafe) var transition: (end: TransitionEnd, error: IdentityError)?

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
        loop.post { [self] in
            watch?.stop()
            endTransition()
        }
    }

    deinit { watch?.stop() }

    private func receive(
        _ read: FileWatch.Outcome, _ onChange: @escaping @Sendable (Result<Secret, IdentityError>) -> Void
    ) {
        loop.assertIsCurrent()
        let stamp = watch?.stamp
        switch finding(read) {
        case .token(let token):
            endTransition()
            served = Served(token: token, stamp: stamp)
            report(.success(token), onChange)
        case .inTransition(let error) where served.map { Self.isOfSameWriter($0.stamp, stamp) } == true:
            holdFormer(unavailable(error), onChange)
        case .inTransition(let error), .unusable(let error): refuse(unavailable(error), onChange)
        }
    }

    private func report(
        _ outcome: Result<Secret, IdentityError>, _ onChange: (Result<Secret, IdentityError>) -> Void
    ) {
        guard outcome != last else { return }
        last = outcome
        onChange(outcome)
    }

    private func refuse(_ error: IdentityError, _ onChange: (Result<Secret, IdentityError>) -> Void) {
        endTransition()
        served = nil
        report(.failure(error), onChange)
    }

    /// The former token serves until the file holds one again. That it is empty at first and missing afterwards prolongs nothing.
    private func holdFormer(
        _ error: IdentityError, _ onChange: @escaping @Sendable (Result<Secret, IdentityError>) -> Void
    ) {
        guard transition == nil else {
            transition?.error = error
            return
        }
        let end = TransitionEnd(on: loop) { [weak self] in
            guard let self, let error = transition?.error else { return }
            refuse(error, onChange)
        }
        transition = (end, error)
        let seconds = Int(TokenTransition.durationMax.inSeconds)
        let message = error.message + "; the token that it held before serves for \(seconds) s more at most"
        report(.failure(IdentityError(.credentialDelayed, message: message).explained(nil)), onChange)
    }

    private func endTransition() {
        transition?.end.cancel()
        transition = nil
    }

    private func finding(_ read: FileWatch.Outcome) -> Finding {
        switch read {
        case .failure(let error): return Self.isTransition(error) ? .inTransition(error) : .unusable(error)
        case .success(let content):
            if content.isWorldReadable { warning.warnOnce(path, identity: name, logger) }
            do throws(SecretFile.ReadError) {
                let token = try FieldValueSecret.value(of: content.secret)
                if let served, TokenCut.isCut(token, of: served.token) {
                    return .inTransition(
                        .unfit(
                            "holds a token that is cut off; write the whole one; if it is whole, empty the file first"))
                }
                noteText(of: token)
                return .token(token)
            } catch {
                return Self.isTransition(error) ? .inTransition(error) : .unusable(error)
            }
        }
    }

    /// What deserves a warning, although the token is sent as it is.
    private func noteText(of token: Secret) {
        if let finding = SecretText.finding(in: token, as: .token) {
            warning.warnOnce(path, finding, identity: name, logger)
        }
        warning.warnOfEnd(path, JWTClaims(of: token)?.expiry, identity: name, logger)
    }

    private static func isTransition(_ error: SecretFile.ReadError) -> Bool {
        switch error {
        case .empty: true
        case .system(let code): [ENOENT, ENOTDIR, ESTALE].contains(code)
        case .notRegular, .tooLarge, .unfit, .delayed, .unsettled, .stopping: false
        }
    }

    /// A missing file has neither owner nor mode.
    private static func isOfSameWriter(_ former: FileSnapshot.Stamp?, _ stamp: FileSnapshot.Stamp?) -> Bool {
        guard let former, let stamp else { return true }
        return former.owner == stamp.owner && former.mode == stamp.mode
    }

    private func unavailable(_ error: SecretFile.ReadError) -> IdentityError {
        IdentityError(.credentialUnavailable, message: error.message(path: path)).explained(nil)
    }
}

/// Whether a file holds the beginning of a token alone, as while a program writes it.
enum TokenCut {
    /// The text is the beginning of the former token. Or it begins as a JWT and is none, in place of one.
    static func isCut(_ token: Secret, of former: Secret) -> Bool {
        token.withBytes { token in
            former.withBytes { former in
                if token.count < former.count, former.starts(with: token) { return true }
                return isWholeJWT(former) && token.starts(with: jwtStart) && !isWholeJWT(token)
            }
        }
    }

    /// Base64url of `{"`, with which the header of nearly each JWT begins.
    private static let jwtStart = Array("eyJ".utf8)

    private static func isWholeJWT(_ bytes: UnsafeRawBufferPointer) -> Bool {
        let parts = bytes.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        // A JWE has five, of which the key's is empty where none is sent (RFC 7516 section 3.1).
        let isWhole = parts.indices.allSatisfy { !parts[$0].isEmpty || parts.count == 5 && $0 == 1 }
        return isWhole && (parts.count == 3 || parts.count == 5) && bytes.starts(with: jwtStart)
    }
}

/// The end of the time in which a file may be in transition. It retains itself until then. All state belongs to the loop's queue.
private final class TransitionEnd: Watcher, @unchecked Sendable {
    private let loop: EventLoop
    private let deadline = Deadline()
    /// Kept until it was called, because it is called once.
    private var act: (() -> Void)?
    private var waiting: TransitionEnd?

    /// Begins at once. `act` is called once, unless it is cancelled before.
    init(on loop: EventLoop, act: @escaping () -> Void) {
        self.loop = loop
        self.act = act
        super.init()
        deadline.owner = self
        waiting = self
        loop.set(deadline, at: loop.now + TokenTransition.durationMax)
    }

    func cancel() {
        loop.assertIsCurrent()
        loop.drop(deadline)
        (act, waiting) = (nil, nil)
    }

    override func due(_ deadline: Deadline) {
        loop.assertIsCurrent()
        let act = self.act
        (self.act, waiting) = (nil, nil)
        act?()
    }
}
