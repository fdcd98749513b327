import LanyardFoundations
import LanyardSessionInterface
import LanyardSettings
import Logging

/// Watches the secret file of one configured login.
package final class CredentialFileWatch: CredentialWatch {
    private let files: FileReader
    private let loop: EventLoop
    /// Belongs to the loop's queue.
    private nonisolated(unsafe) var watch: FileWatch?

    /// Does nothing yet.
    package init(by files: FileReader = .ofCredentials(), on loop: EventLoop) {
        self.files = files
        self.loop = loop
    }

    package func start(_ login: UserSettings.Login, _ onChange: @escaping @Sendable () -> Void) {
        guard let path = login.secretFile else { return }
        loop.post { [self] in
            guard watch == nil else { return }
            // The first read finds the state that the user's first login uses.
            let watch = FileWatch(path, by: files, on: loop, reportsInitialContent: false) { _ in onChange() }
            self.watch = watch
            watch.start()
        }
    }

    package func stop() {
        loop.post { [self] in watch?.stop() }
    }

    deinit { watch?.stop() }
}

/// The warning that every user may read a secret file: once for each file, whatever the number of reads.
package final class SecretFileWarning: Sendable {
    private let warnedPaths: Guarded<Set<String>>

    /// - Parameter warnedPaths: files that have been reported before.
    package init(warnedPaths: Set<String> = []) { self.warnedPaths = Guarded(warnedPaths) }

    /// Warns of a secret file that every user of this machine can read.
    func warnOnce(_ path: String, identity: String, _ logger: Logger) {
        guard warnedPaths.withLock({ $0.insert(path).inserted }) else { return }
        logger.warning(
            "A secret file can be read by every user of this machine; remove that permission (chmod o-r).",
            metadata: ["event": "identity.secret_file_world_readable", "identity": "\(identity)", "path": "\(path)"])
    }
}
