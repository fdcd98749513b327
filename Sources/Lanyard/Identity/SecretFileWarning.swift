import Logging

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
