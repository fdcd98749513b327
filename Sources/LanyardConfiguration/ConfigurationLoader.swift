import Glibc
import LanyardSettings

extension Configuration {
    /// Reads file, environment and flags, and checks everything, so that all errors are reported at once.
    ///
    /// A flag overrides a variable, a variable overrides the file, and the file overrides the default. It reads files, opens no socket and
    /// starts no thread.
    ///
    /// - Parameters:
    ///   - arguments: the flags after `run` or `check`.
    ///   - isReload: the file is read again. A pipe, which brings its content once, is refused.
    ///   - readsSecrets: secret files are read as well, and what editors have added to them is a warning. A file system that hangs then
    ///     delays the result.
    package static func load(
        arguments: [String], environment: [String: String], isReload: Bool = false, readsSecrets: Bool = false
    ) -> LoadedConfiguration {
        var loader = ConfigurationLoader(isReload: isReload, readsSecrets: readsSecrets)
        return loader.load(arguments: arguments, environment: environment)
    }

    /// The configuration of one text alone, without environment and flags. It checks whether the files it names exist.
    ///
    /// - Parameter path: the name of the text in errors. Relative paths in the text start from its folder.
    package static func load(text: [UInt8], path: String) -> LoadedConfiguration {
        ConfigurationLoader.load(text, path: path)
    }

    /// The address of the health listener, for the command that probes it. Other errors in the configuration do not matter.
    package static func healthEndpoint(arguments: [String], environment: [String: String]) -> HealthEndpoint {
        var loader = ConfigurationLoader()
        return loader.healthEndpoint(arguments: arguments, environment: environment)
    }

    /// Where the admin API is, for the commands that call it. Other errors in the configuration do not matter.
    ///
    /// - Parameters:
    ///   - uid: of the command; it decides the default place.
    ///   - exists: whether there is a file or folder at a path; it decides the default place, too.
    package static func adminEndpoint(
        arguments: [String], environment: [String: String], uid: UInt32,
        exists: (String) -> Bool = { access($0, F_OK) == 0 }
    ) -> AdminEndpoint {
        var loader = ConfigurationLoader()
        return loader.adminEndpoint(arguments: arguments, environment: environment) {
            AdminSettings.likelyFolder(environment: environment, uid: uid, exists: exists)
        }
    }

    /// Where the store is, for who must not harm it: the scripts of the package. Other errors in the configuration do not matter, because
    /// a store may be there since a configuration without them.
    package static func storePlace(arguments: [String], environment: [String: String]) -> StorePlace {
        var loader = ConfigurationLoader()
        return loader.storePlace(arguments: arguments, environment: environment)
    }
}

/// Merges the sources of a configuration.
struct ConfigurationLoader {
    private var diagnostics: [ConfigurationError] = []
    private let isReload: Bool
    private let readsSecrets: Bool
    /// The text of the file is not one strict document: a value of the tree may not be the only one that was given.
    private var hasAmbiguousText = false

    /// See `ConfigurationShortForm`.
    private let login: ConfigurationShortForm.OAuthLogin?

    init(isReload: Bool = false, readsSecrets: Bool = false, login: ConfigurationShortForm.OAuthLogin? = nil) {
        self.login = login
        self.isReload = isReload
        self.readsSecrets = readsSecrets
    }

    mutating func load(arguments: [String], environment: [String: String]) -> LoadedConfiguration {
        guard let tree = merged(arguments: arguments, environment: environment) else { return failed() }
        return finish(
            tree, credentialsFolder: environment["CREDENTIALS_DIRECTORY"].flatMap { $0.isEmpty ? nil : $0 },
            adminFolder: AdminSettings.defaultFolder(environment: environment, uid: geteuid()),
            proxies: ProxyEnvironment(environment))
    }

    /// The configuration of one text alone.
    static func load(_ text: [UInt8], path: String) -> LoadedConfiguration {
        var loader = ConfigurationLoader()
        guard let tree = loader.document(text, path: path) else { return loader.failed() }
        return loader.finish(tree, credentialsFolder: nil, adminFolder: nil)
    }

    /// Checks the merged tree: unsupported settings, references between keys, files.
    private mutating func finish(
        _ merged: ConfigurationNode, credentialsFolder: String?, adminFolder: String?,
        proxies: ProxyEnvironment = ProxyEnvironment([:])
    ) -> LoadedConfiguration {
        var tree = merged
        let onlyHandsOut = tree["brokers"] != nil && tree["routes"] == nil
        if tree["listeners"] == nil, !onlyHandsOut { tree.set(["listeners"], to: Self.defaultListeners) }
        tree = removingUnsupported(tree, keys: "", shown: "")
        let (configuration, found) = ConfigurationBuilder.build(
            tree, credentialsFolder: credentialsFolder, adminFolder: adminFolder, proxies: proxies,
            readsSecrets: readsSecrets)
        diagnostics += found
        guard !diagnostics.contains(where: { $0.severity != .warning }) else { return failed() }
        return LoadedConfiguration(
            configuration: configuration, diagnostics: limited(diagnostics), tree: tree,
            addresses: AddressPlaces(of: tree))
    }

    mutating func healthEndpoint(arguments: [String], environment: [String: String]) -> HealthEndpoint {
        let tree = operatorTree(arguments: arguments, environment: environment)
        guard let tree else { return .unknown(errors) }
        guard let node = tree["health"] else { return .address(HealthSettings().address) }
        guard node.content != .invalid else { return .unknown(errors) }
        guard case .mapping = node.content else { return .none }
        guard let address = node["address"] else { return .address(HealthSettings().address) }
        guard address.content != .invalid else { return .unknown(errors) }
        return address.text.flatMap { try? AddressText.listenAddress($0) }.map { .address($0) } ?? .none
    }

    mutating func adminEndpoint(
        arguments: [String], environment: [String: String], defaultFolder: () -> String
    ) -> AdminEndpoint {
        guard let tree = operatorTree(arguments: arguments, environment: environment) else { return .unknown(errors) }
        let admin = tree["admin"]
        if admin?.text == "off" || admin?["address"]?.text == "off" { return .off }
        guard admin?.hasUnread != true, admin?["address"]?.content != .invalid else { return .unknown(errors) }
        // A wrong address was reported when the text was read, and is not here.
        let configured = admin?["address"]?.text.flatMap { try? AddressText.listenAddress($0) }
        let address = configured ?? .unix(path: defaultFolder() + "/admin.sock")
        // A static identity has no login and no accounts.
        let identities = tree["identities"]?.entries.filter { !$0.isUnread && $0.value["static"] == nil } ?? []
        return .found(
            AdminEndpoint.Place(
                address: address, tokenFile: admin?["token_file"]?.text, identities: identities.map(\.key)))
    }

    mutating func storePlace(arguments: [String], environment: [String: String]) -> StorePlace {
        guard let tree = merged(arguments: arguments, environment: environment), !hasAmbiguousText else {
            return .unknown(errors)
        }
        guard let store = tree["store"] else { return tree.hasUnread ? .unknown(errors) : .none }
        guard let path = store["path"] else { return store.hasUnread ? .unknown(errors) : .none }
        guard let text = path.text, !text.isEmpty else { return .unknown(errors) }
        guard text.unicodeScalars.allSatisfy(ConfigurationText.isPrintable) else {
            let error = ConfigurationError(
                at: path.place, "store.path: has a character that cannot be shown", remedy: "choose another path")
            return .unknown(errors + [error])
        }
        return .path(text)
    }

    /// The merged sources for a command that needs one address. Without a file they are the variables alone.
    private mutating func operatorTree(arguments: [String], environment: [String: String]) -> ConfigurationNode? {
        let variables = ConfigurationFlagValues(environment: environment)
        let isNamed = arguments.contains("--config") || variables.value("--config") != nil
        if let tree = merged(arguments: arguments, environment: environment) { return tree }
        guard !isNamed else { return nil }
        diagnostics = []
        return checked(tree(of: variables.values), folder: nil)
    }

    private var errors: [ConfigurationError] { limited(diagnostics.filter { $0.severity != .warning }) }

    private func failed() -> LoadedConfiguration {
        LoadedConfiguration(configuration: nil, diagnostics: limited(diagnostics))
    }

    // MARK: - Sources

    private mutating func merged(arguments: [String], environment: [String: String]) -> ConfigurationNode? {
        let flags = ConfigurationFlagValues(arguments: arguments)
        let variables = ConfigurationFlagValues(environment: environment)
        diagnostics += variables.diagnostics + flags.diagnostics
        // The intention of a contradictory command line cannot be known.
        guard flags.diagnostics.isEmpty else { return nil }
        var short = ConfigurationShortForm(variables.values + flags.values, login: login)
        var tree = ConfigurationNode(.mapping([]), at: .commandLine)
        if let file = flags.value("--config") ?? variables.value("--config") {
            guard let read = self.file(file) else { return nil }
            tree = read
        } else if short.isEmpty {
            diagnostics.append(
                ConfigurationError(
                    at: .commandLine, "no configuration",
                    remedy:
                        "name a file with --config PATH, write one with lanyard init, or give at least --upstream and "
                        + "--token-file, or --issuer and --client-id"
                        + Self.packagedFile))
            return nil
        }
        if !short.isEmpty {
            let taken = ["listeners", "users", "identities", "routes"].first { tree[$0] != nil }
            if let taken {
                diagnostics.append(
                    ConfigurationError(
                        .usage, at: short.place, "is of the short form, and the file has \(taken)",
                        remedy: "remove it, or write it into the file"))
            } else {
                let shortTree = short.tree()
                diagnostics += short.diagnostics
                tree.overlay(checked(shortTree, folder: nil))
            }
        }
        for values in [variables.values, flags.values] { tree.overlay(checked(self.tree(of: values), folder: nil)) }
        return tree
    }

    /// Names the configuration of the package if it is there. It is not read unasked, so that a forgotten flag starts nothing.
    private static var packagedFile: String {
        let path = "/etc/lanyard/lanyard.yaml"
        return access(path, F_OK) == 0 ? "; the package's file is \(path)" : ""
    }

    private mutating func file(_ given: ConfigurationFlagValues.Value) -> ConfigurationNode? {
        do throws(ConfigurationValue.ValueError) {
            return document(try ConfigurationFile.read(given.text, waitsForPipe: !isReload), path: given.text)
        } catch {
            diagnostics.append(
                ConfigurationError(at: .wholeFile(path: given.text), error.message, remedy: error.remedy))
            return nil
        }
    }

    private mutating func document(_ text: [UInt8], path: String) -> ConfigurationNode? {
        let (tree, found) = ConfigurationDocument.read(text, path: path)
        diagnostics += found
        hasAmbiguousText = !found.isEmpty
        guard let tree else { return nil }
        let known = checked(tree, folder: path.lastIndex(of: "/").map { String(path[..<$0]) })
        return known.content == .invalid ? nil : known
    }

    private mutating func checked(_ tree: ConfigurationNode, folder: String?) -> ConfigurationNode {
        let (checked, found) = ConfigurationCheck.run(tree, folder: folder)
        diagnostics += found
        return checked
    }

    private func tree(of values: [ConfigurationFlagValues.Value]) -> ConfigurationNode { Self.tree(of: values) }

    /// The tree of flags that are single keys.
    static func tree(of values: [ConfigurationFlagValues.Value]) -> ConfigurationNode {
        var tree = ConfigurationNode(.mapping([]), at: .commandLine)
        for value in values {
            let (path, node): (String, ConfigurationNode)
            switch value.flag.target {
            case .key(let key): (path, node) = (key, ConfigurationNode(.scalar(value.text), at: value.place))
            case .list(let key): (path, node) = (key, value.list)
            case .file, .short: continue
            }
            tree.set(path.split(separator: ".").map(String.init), to: node)
        }
        return tree
    }

    static var defaultListeners: ConfigurationNode {
        var listener = ConfigurationNode(.mapping([]), at: .commandLine)
        let address = ListenerSettings.Address.tcp(host: "127.0.0.1", port: 7400).description
        listener.set(["address"], to: ConfigurationNode(.scalar(address), at: .commandLine))
        return ConfigurationNode(.sequence([listener]), at: .commandLine)
    }

    /// The tree with defaults that depend on other keys, if a file can express them.
    static func completed(_ tree: ConfigurationNode) -> ConfigurationNode {
        var tree = tree
        if tree["store"]?["path"] == nil {
            tree.set(["store", "memory"], to: ConfigurationNode(.scalar("true"), at: .commandLine))
        }
        if var routes = tree["routes"], routes.elements.count == 1, routes.elements[0]["name"] == nil {
            var route = routes.elements[0]
            route.set(["name"], to: ConfigurationNode(.scalar("default"), at: .commandLine))
            routes.content = .sequence([route])
            tree.set(["routes"], to: routes)
        }
        return tree
    }

    // MARK: - Not in this version

    /// The tree without unsupported settings. Each is reported as an error or warning.
    private mutating func removingUnsupported(_ node: ConfigurationNode, keys section: String, shown: String)
        -> ConfigurationNode
    {
        guard case .mapping(let entries) = node.content else { return node }
        let known = ConfigurationKeys.keys(in: section)
        let kept = entries.compactMap { entry -> ConfigurationNode.Entry? in
            guard let key = known.first(where: { $0.name == entry.key }) else { return entry }
            let unsupported = UnsupportedSetting.matching(entry.value, at: key.path)
            // What is a value has nothing below it.
            if unsupported == nil, entry.value.text != nil { return entry }
            let name = shown.isEmpty ? entry.key : "\(shown).\(entry.key)"
            if let unsupported {
                report(unsupported, entry, key: key, shown: name)
                guard unsupported.isError else { return nil }
                return .init(key: entry.key, place: entry.place, value: .init(.invalid, at: entry.value.place))
            }
            var entry = entry
            entry.value = removingUnsupported(below: entry.value, of: key, shown: name)
            return entry
        }
        return ConfigurationNode(.mapping(kept), at: node.place)
    }

    private mutating func removingUnsupported(
        below node: ConfigurationNode, of key: ConfigurationKey, shown: String
    ) -> ConfigurationNode {
        switch (key.kind, node.content) {
        case (.section, .mapping): return removingUnsupported(node, keys: key.below, shown: shown)
        case (.sections, .sequence(let elements)):
            let kept = elements.enumerated().map { removingUnsupported($1, keys: key.below, shown: "\(shown)[\($0)]") }
            return ConfigurationNode(.sequence(kept), at: node.place)
        case (.named, .mapping(let entries)):
            let kept = entries.map { entry in
                ConfigurationNode.Entry(
                    key: entry.key, place: entry.place,
                    value: removingUnsupported(entry.value, keys: key.below, shown: "\(shown).\(entry.key)"))
            }
            return ConfigurationNode(.mapping(kept), at: node.place)
        default: return node
        }
    }

    private mutating func report(
        _ unsupported: UnsupportedSetting, _ entry: ConfigurationNode.Entry, key: ConfigurationKey, shown: String
    ) {
        let value = unsupported.values == .any ? "" : entry.value.text.map { " \(ConfigurationText.quoted($0))" } ?? ""
        // The place of a mapping is its first key. The place of its name is easier to find.
        let place = entry.value.text == nil ? entry.place : entry.value.place
        diagnostics.append(
            ConfigurationError(
                unsupported.isError ? .error : .warning, at: place, "\(shown)\(value) is not in this version",
                remedy: unsupported.isError
                    ? unsupported.alternative ?? "remove it if Lanyard may run without it"
                    : "it is ignored: "
                        + (unsupported.alternative ?? key.defaultValue.map { "\($0) holds" } ?? "remove it")))
    }

    // MARK: - Reported errors

    /// The sorted errors and warnings, at most a hundred. If there are more, warnings are left out unless all are warnings.
    private func limited(_ diagnostics: [ConfigurationError]) -> [ConfigurationError] {
        let all = sorted(diagnostics)
        guard all.count > ConfigurationCheck.diagnosticsMax else { return all }
        let grave = all.filter { $0.severity != .warning }
        let kept = grave.isEmpty ? all : grave
        guard kept.count > ConfigurationCheck.diagnosticsMax else { return kept }
        let next = kept[ConfigurationCheck.diagnosticsMax]
        let rest = ConfigurationError(
            next.severity, at: next.place, "and more errors from here on", remedy: "correct those above first")
        return kept.prefix(ConfigurationCheck.diagnosticsMax) + [rest]
    }

    /// Sorts by source, and within a file by line.
    private func sorted(_ diagnostics: [ConfigurationError]) -> [ConfigurationError] {
        func rank(_ error: ConfigurationError, _ order: Int) -> (Int, Int, Int, Int) {
            switch error.place {
            case .wholeFile: (0, 0, 0, order)
            case .file(_, let line, let column): (1, line, column, order)
            case .environment: (2, 0, 0, order)
            case .flag: (3, 0, 0, order)
            case .commandLine: (4, 0, 0, order)
            }
        }
        return diagnostics.enumerated().sorted { rank($0.element, $0.offset) < rank($1.element, $1.offset) }.map(
            \.element)
    }
}
