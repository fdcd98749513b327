import Logging

/// The warning that a secret file lies open: once for each file, whoever finds it and however often it is read.
package final class SecretFileWarning: Sendable {
    private let warnedPaths: Guarded<Set<String>>

    /// - Parameter told: paths of files that have been warned of before.
    package init(warnedPaths: Set<String> = []) { self.warnedPaths = Guarded(warnedPaths) }

    /// A secret was read that every user of this machine can read.
    func found(_ path: String, identity: String, _ logger: Logger) {
        guard warnedPaths.withLock({ $0.insert(path).inserted }) else { return }
        logger.warning(
            "A secret file can be read by every user of this machine; remove that permission (chmod o-r).",
            metadata: ["event": "identity.secret_file_world_readable", "identity": "\(identity)", "path": "\(path)"])
    }
}
