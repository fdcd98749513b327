import LanyardFoundations
import LanyardSessionInterface
import LanyardSettings
import Logging

/// Watches the secret files of one configured login: its own, and those of the identity's client.
package final class CredentialFileWatch: CredentialWatch {
    private let clientFiles: [String]
    private let files: FileReader
    private let loop: EventLoop
    /// Belongs to the loop's queue, to which `start` and `stop` switch. Each watch checks it.
    private nonisolated(unsafe) var watches: [FileWatch] = []

    /// Does nothing yet.
    ///
    /// - Parameter clientFiles: secret files of the client, which each login reads as well.
    package init(besides clientFiles: [String] = [], by files: FileReader = .ofCredentials(), on loop: EventLoop) {
        self.clientFiles = clientFiles
        self.files = files
        self.loop = loop
    }

    package func start(_ login: UserSettings.Login?, _ onChange: @escaping @Sendable () -> Void) {
        let paths = (login?.files ?? []) + clientFiles
        loop.post { [self] in
            guard watches.isEmpty else { return }
            // The first read finds the state that the user's first login uses.
            watches = paths.map { FileWatch($0, by: files, on: loop, reportsInitialContent: false) { _ in onChange() } }
            for watch in watches { watch.start() }
        }
    }

    package func stop() {
        loop.post { [self] in for watch in watches { watch.stop() } }
    }

    deinit { for watch in watches { watch.stop() } }
}

/// Warnings about secret files: once for each file and finding, whatever the number of reads.
package final class SecretFileWarning: Sendable {
    private let warnedPaths: Guarded<Set<String>>
    /// The latest finding of each file.
    private let findings = Guarded<[String: String]>([:])
    /// Files whose token has named its own end.
    private let pathsWithEnd = Guarded<Set<String>>([])

    /// - Parameter warnedPaths: files that have been reported before.
    package init(warnedPaths: Set<String> = []) { self.warnedPaths = Guarded(warnedPaths) }

    /// Warns of a secret whose text has what an editor or another program may have added.
    ///
    /// - Parameter finding: see `SecretText.finding`.
    func warnOnce(_ path: String, _ finding: String, identity: String, _ logger: Logger) {
        guard findings.withLock({ $0.updateValue(finding, forKey: path) != finding }) else { return }
        logger.warning(
            "A secret file holds what an editor may have added; if it is no part of the secret, write the secret alone into the file.",
            metadata: [
                "event": "identity.secret_file_text", "identity": "\(identity)", "path": "\(path)",
                "finding": "\(finding)",
            ])
    }

    /// Warns of a static token that names its own end: it is sent until its file changes. Once for each file.
    ///
    /// - Parameter end: nil: it names none.
    func warnOfEnd(_ path: String, _ end: StaticTokenEnd?, identity: String, _ logger: Logger) {
        guard let end, pathsWithEnd.withLock({ $0.insert(path).inserted }) else { return }
        let passed = end.hasPassed() ? ", which has passed" : ""
        logger.warning(
            "A static token names its own end (exp)\(passed), and is sent beyond it: \(StaticTokenEnd.remedy).",
            metadata: [
                "event": "identity.static_token_ends", "identity": "\(identity)", "path": "\(path)",
                "expires_at": "\(end.text)",
            ])
    }

    /// Warns of a secret file that every user of this machine can read.
    func warnOnce(_ path: String, identity: String, _ logger: Logger) {
        guard warnedPaths.withLock({ $0.insert(path).inserted }) else { return }
        logger.warning(
            "A secret file can be read by every user of this machine; remove that permission (chmod o-r).",
            metadata: ["event": "identity.secret_file_world_readable", "identity": "\(identity)", "path": "\(path)"])
    }
}
