import Logging

/// The warning that a secret file lies open.
enum SecretFileWarning {
    static func log(_ logger: Logger, identity: String, path: String) {
        logger.warning(
            "A secret file can be read by every user of this machine; remove that permission (chmod o-r).",
            metadata: ["event": "identity.secret_file_world_readable", "identity": "\(identity)", "path": "\(path)"])
    }
}
