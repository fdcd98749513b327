/// A file that the configuration names and whose content cannot be used.
///
/// A type of its own: contents are read after the configuration has been accepted, and only the loaded configuration knows the place.
package struct ConfiguredFileError: Error, Equatable, Sendable {
    /// Whose file it is.
    package enum Owner: Equatable, Sendable, CustomStringConvertible {
        /// By its index in `listeners`.
        case listener(Int)
        /// By its index in `brokers`.
        case broker(Int)
        /// By its index in `brokers`, and the row of its `callers`.
        case caller(broker: Int, row: Int)
        /// By its index in `routes`.
        case route(Int)
        /// By its name.
        case identity(String)
        /// By its name.
        case user(String)

        /// Its key, for the log: `listeners[0]`.
        package var description: String {
            switch self {
            case .listener(let index): "listeners[\(index)]"
            case .broker(let index): "brokers[\(index)]"
            case .caller(let broker, let row): "brokers[\(broker)].callers[\(row)]"
            case .route(let index): "routes[\(index)]"
            case .identity(let name): "identities.\(name)"
            case .user(let name): "users.\(name)"
            }
        }
    }

    /// Whose file it is.
    package let owner: Owner
    /// As the configuration names it; nil: no file is at fault, or none that it names.
    package let path: String?
    /// What is wrong, with the remedy.
    package let message: String

    package init(_ owner: Owner, path: String?, _ message: String) {
        self.owner = owner
        self.path = path
        self.message = message
    }
}

/// What is wrong with a file that the configuration names, although Lanyard uses it.
package struct ConfiguredFileWarning: Equatable, Sendable {
    /// Whose file it is.
    package let owner: ConfiguredFileError.Owner
    /// As the configuration names it.
    package let path: String
    /// What is wrong, with the remedy.
    package let message: String

    package init(_ owner: ConfiguredFileError.Owner, path: String, _ message: String) {
        self.owner = owner
        self.path = path
        self.message = message
    }
}

extension LoadedConfiguration {
    /// The line of a log or a command: `lanyard.yaml:12:5: listeners[0].tls.certificate_file: …`.
    package func line(of warning: ConfiguredFileWarning) -> String {
        let (place, text) = finding(of: warning)
        return ConfigurationText.line("\(place): \(text)")
    }

    /// The line of a log or a command: `lanyard.yaml:12:5: listeners[0].tls.key_file: …`.
    package func line(of error: ConfiguredFileError) -> String {
        let (place, text) = finding(of: error)
        return ConfigurationText.line("\(place): \(text)")
    }

    /// The same in two parts.
    package func finding(of warning: ConfiguredFileWarning) -> (place: ConfigurationPlace, text: String) {
        let (place, key) = location(of: warning.owner, warning.path)
        return (place, "\(key): \(warning.message)")
    }

    /// The same in two parts.
    package func finding(of error: ConfiguredFileError) -> (place: ConfigurationPlace, text: String) {
        let (place, key) = location(of: error.owner, error.path)
        return (place, "\(key): \(error.message)")
    }

    /// What is wrong with the upstream of a route, at its key.
    package func finding(ofUpstream index: Int, _ message: String) -> (place: ConfigurationPlace, text: String) {
        let elements = tree["routes"]?.elements ?? []
        let place = elements.indices.contains(index) ? elements[index]["upstream"]?.place : nil
        return (place ?? .commandLine, "routes[\(index)].upstream: \(message)")
    }

    /// What is wrong with the store, at its key.
    ///
    /// - Parameter isAboutSecret: the key or passphrase is at fault, not the file.
    package func finding(
        ofStore message: String, isAboutSecret: Bool
    ) -> (place: ConfigurationPlace, text: String) {
        let entries = tree["store"]?.entries ?? []
        let entry =
            entries.first { isAboutSecret && ($0.key.hasSuffix("_file") || $0.key.hasSuffix("_credential")) }
            ?? entries.first { $0.key == "path" }
        guard let entry else { return (.commandLine, "store: \(message)") }
        return (entry.value.place, "store.\(entry.key): \(message)")
    }

    /// Where the configuration names the file, or whose it is.
    package func place(of error: ConfiguredFileError) -> ConfigurationPlace {
        location(of: error.owner, error.path).place
    }

    private func location(
        of owner: ConfiguredFileError.Owner, _ path: String?
    ) -> (place: ConfigurationPlace, key: String) {
        let (shown, node) = ("\(owner)", node(of: owner))
        for (section, shown) in [(node?["tls"], "\(shown).tls"), (node, shown)] {
            let entry = section?.entries.first { $0.value.text == path && $0.key.hasSuffix("_file") }
            if let entry { return (entry.value.place, "\(shown).\(entry.key)") }
        }
        if let path, let node, let entry = Self.entry(naming: path, in: node, shown) { return entry }
        guard let tls = node?["tls"] else { return (node?.place ?? .commandLine, shown) }
        return (tls.place, "\(shown).tls")
    }

    /// The entry that names the file, at any depth.
    private static func entry(
        naming path: String, in node: ConfigurationNode, _ shown: String
    ) -> (place: ConfigurationPlace, key: String)? {
        for entry in node.entries {
            let shown = "\(shown).\(entry.key)"
            if entry.value.text == path, entry.key == "file" || entry.key.hasSuffix("_file") {
                return (entry.value.place, shown)
            }
            if let found = Self.entry(naming: path, in: entry.value, shown) { return found }
        }
        return nil
    }

    private func node(of owner: ConfiguredFileError.Owner) -> ConfigurationNode? {
        switch owner {
        case .listener(let index): element(index, of: "listeners")
        case .broker(let index): element(index, of: "brokers")
        case .caller(let broker, let row):
            element(broker, of: "brokers").flatMap { Self.element(row, of: $0["callers"]) }
        case .route(let index): element(index, of: "routes")
        case .identity(let name): tree["identities"]?[name]
        case .user(let name): tree["users"]?[name]
        }
    }

    private func element(_ index: Int, of list: String) -> ConfigurationNode? { Self.element(index, of: tree[list]) }

    private static func element(_ index: Int, of list: ConfigurationNode?) -> ConfigurationNode? {
        let elements = list?.elements ?? []
        return index < elements.count ? elements[index] : nil
    }
}
