import LanyardFoundations
import LanyardSettings

/// `store:`. Its keys depend on one another.
extension ConfigurationBuilder {
    private static let keys = ["key_file", "key_credential", "passphrase_file", "passphrase_credential"]

    mutating func readStore(_ top: ConfigurationSection) {
        let section = top.section("store")
        let given = Self.keys.filter(section.has)
        let memory = section.text("memory").flatMap(ConfigurationText.boolean)
        guard section.has("path") else {
            if section.isUnread("path") { return }
            if let first = given.first {
                reportError(
                    section.place(first), "store.\(first): there is no store.path that it could seal",
                    remedy: "add path, or remove it")
            } else if memory == false {
                reportError(
                    section.place("memory"), "store.memory is false, and there is no store.path",
                    remedy: "add path and key_file, or remove memory")
            }
            return
        }
        if memory == true {
            reportError(section.place("memory"), "store: both path and memory: true", remedy: "keep one of them")
        }
        guard let key = given.first else {
            if section.node.hasUnread { return }
            return reportError(
                section.place("path"), "store.path: nothing to seal it with",
                remedy: "add one of \(Self.keys.joined(separator: ", "))")
        }
        if given.count > 1 {
            return reportError(
                section.place(given[1]), "store: both \(key) and \(given[1])", remedy: "keep one of them")
        }
        let keyFile = keyFile(section, key)
        guard let path = section.text("path") else { return }
        guard StoreSettings.accepts(path: path) else {
            return reportError(
                section.place("path"),
                "store.path: \(ConfigurationText.quoted(path)) cannot be the name of the sealed file",
                remedy:
                    "name a file that does not end in .lock, .open, .tmp or .used, with at most 180 bytes behind the last /"
            )
        }
        if let keyFile { configuration.store = .file(path: path, sealedBy: keyFile) }
    }

    /// The key or passphrase file. It must exist, because Lanyard cannot start without it.
    private mutating func keyFile(_ section: ConfigurationSection, _ key: String) -> StoreSettings.KeyFile? {
        guard var path = section.text(key) else { return nil }
        if key.hasSuffix("_credential") {
            guard let credentialsFolder else {
                reportError(
                    section.place(key), "store.\(key): systemd passed no credentials",
                    remedy:
                        "add LoadCredential=\(path):/PATH to the unit, or use \(key.dropLast("credential".count))file"
                )
                return nil
            }
            path = "\(credentialsFolder)/\(path)"
        }
        guard let file = requiredPath(path, section.place(key), "store.\(key)", isPrivate: true) else { return nil }
        checkText(of: file, section.place(key), "store.\(key)", .bytes)
        return key.hasPrefix("key") ? .key(file) : .passphrase(file)
    }
}
