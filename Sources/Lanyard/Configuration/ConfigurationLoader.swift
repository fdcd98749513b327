import Glibc

extension Configuration {
    /// Reads file, environment and flags (flag over environment over file over default) and checks everything, so that
    /// all that is wrong is said at once. Reads files, opens no socket, starts no thread.
    ///
    /// - Parameter arguments: the flags behind `run` or `check`.
    package static func load(arguments: [String], environment: [String: String]) -> LoadedConfiguration {
        var loader = ConfigurationLoader()
        return loader.load(arguments: arguments, environment: environment)
    }

    /// The configuration that one text alone makes, without environment and flags. Looks whether the files it names are there.
    ///
    /// - Parameter path: what faults call the text; relative paths in it start from its folder.
    package static func load(text: [UInt8], path: String) -> LoadedConfiguration {
        ConfigurationLoader.load(text, path: path)
    }

    /// Where `health` listens, whatever else is wrong with the configuration: for the command that asks it.
    package static func healthPlace(arguments: [String], environment: [String: String]) -> HealthPlace {
        var loader = ConfigurationLoader()
        return loader.healthPlace(arguments: arguments, environment: environment)
    }
}

/// Joins the sources of a configuration.
struct ConfigurationLoader {
    private var faults: [ConfigurationFault] = []

    mutating func load(arguments: [String], environment: [String: String]) -> LoadedConfiguration {
        guard let tree = merged(arguments: arguments, environment: environment) else { return failed() }
        return finish(
            tree, credentialsFolder: environment["CREDENTIALS_DIRECTORY"].flatMap { $0.isEmpty ? nil : $0 },
            adminFolder: AdminSettings.standardFolder(environment: environment, uid: geteuid()))
    }

    /// The configuration of one text alone.
    static func load(_ text: [UInt8], path: String) -> LoadedConfiguration {
        var loader = ConfigurationLoader()
        guard let tree = loader.document(text, path: path) else { return loader.failed() }
        return loader.finish(tree, credentialsFolder: nil, adminFolder: nil)
    }

    /// What only shows in the whole: parts that are not built, references, files.
    private mutating func finish(
        _ merged: ConfigurationNode, credentialsFolder: String?, adminFolder: String?
    ) -> LoadedConfiguration {
        var tree = merged
        if tree["listeners"] == nil { tree.set(["listeners"], to: Self.standardListeners) }
        tree = withoutUnbuilt(tree, keys: "", shown: "")
        let (configuration, found) = ConfigurationBuilder.build(
            tree, credentialsFolder: credentialsFolder, adminFolder: adminFolder)
        faults += found
        guard !faults.contains(where: { $0.severity != .warning }) else { return failed() }
        return LoadedConfiguration(
            configuration: configuration, faults: told(faults),
            printed: ConfigurationPrinter.print(Self.completed(tree)), addresses: AddressPlaces(of: tree))
    }

    mutating func healthPlace(arguments: [String], environment: [String: String]) -> HealthPlace {
        let variables = ConfigurationGiven(environment: environment)
        let isNamed = arguments.contains("--config") || variables.value("--config") != nil
        var tree = merged(arguments: arguments, environment: environment)
        if tree == nil, !isNamed {
            // Without a file this command needs no more than the address.
            faults = []
            tree = checked(self.tree(of: variables.values), folder: nil)
        }
        guard let tree else { return .unknown(errors) }
        guard let node = tree["health"] else { return .address(HealthSettings().address) }
        guard node.content != .invalid else { return .unknown(errors) }
        guard case .mapping = node.content else { return .none }
        guard let address = node["address"] else { return .address(HealthSettings().address) }
        guard address.content != .invalid else { return .unknown(errors) }
        return address.text.flatMap { try? AddressText.listenAddress($0) }.map { .address($0) } ?? .none
    }

    private var errors: [ConfigurationFault] { told(faults.filter { $0.severity != .warning }) }

    private func failed() -> LoadedConfiguration {
        LoadedConfiguration(configuration: nil, faults: told(faults), printed: "")
    }

    // MARK: - Sources

    private mutating func merged(arguments: [String], environment: [String: String]) -> ConfigurationNode? {
        let flags = ConfigurationGiven(arguments: arguments)
        let variables = ConfigurationGiven(environment: environment)
        faults += variables.faults + flags.faults
        // What a command line meant that contradicts itself would be a guess.
        guard flags.faults.isEmpty else { return nil }
        var short = ConfigurationShortForm(variables.values + flags.values)
        var tree = ConfigurationNode(.mapping([]), at: .commandLine)
        if let file = flags.value("--config") ?? variables.value("--config") {
            guard let read = self.file(file) else { return nil }
            tree = read
        } else if short.isEmpty {
            faults.append(
                ConfigurationFault(
                    at: .commandLine, "no configuration",
                    remedy: "name a file with --config PATH, or give at least --upstream and --token-file"))
            return nil
        }
        if !short.isEmpty {
            let taken = ["listeners", "users", "identities", "routes"].first { tree[$0] != nil }
            if let taken {
                faults.append(
                    ConfigurationFault(
                        .usage, at: short.place, "is of the short form, and the file has \(taken)",
                        remedy: "remove it, or write it into the file"))
            } else {
                let shortTree = short.tree()
                faults += short.faults
                tree.overlay(checked(shortTree, folder: nil))
            }
        }
        for values in [variables.values, flags.values] { tree.overlay(checked(self.tree(of: values), folder: nil)) }
        return tree
    }

    private mutating func file(_ given: ConfigurationGiven.Value) -> ConfigurationNode? {
        do throws(ConfigurationValue.Problem) {
            return document(try ConfigurationFile.read(given.text), path: given.text)
        } catch {
            faults.append(ConfigurationFault(at: .wholeFile(path: given.text), error.words, remedy: error.remedy))
            return nil
        }
    }

    private mutating func document(_ text: [UInt8], path: String) -> ConfigurationNode? {
        let (tree, found) = ConfigurationDocument.read(text, path: path)
        faults += found
        guard let tree else { return nil }
        let known = checked(tree, folder: path.lastIndex(of: "/").map { String(path[..<$0]) })
        return known.content == .invalid ? nil : known
    }

    private mutating func checked(_ tree: ConfigurationNode, folder: String?) -> ConfigurationNode {
        let (checked, found) = ConfigurationCheck.run(tree, folder: folder)
        faults += found
        return checked
    }

    private func tree(of values: [ConfigurationGiven.Value]) -> ConfigurationNode {
        var tree = ConfigurationNode(.mapping([]), at: .commandLine)
        for value in values {
            guard case .key(let path) = value.flag.target else { continue }
            tree.set(
                path.split(separator: ".").map(String.init), to: ConfigurationNode(.scalar(value.text), at: value.place)
            )
        }
        return tree
    }

    private static var standardListeners: ConfigurationNode {
        var listener = ConfigurationNode(.mapping([]), at: .commandLine)
        let address = ListenerSettings.Address.tcp(host: "127.0.0.1", port: 7400).description
        listener.set(["address"], to: ConfigurationNode(.scalar(address), at: .commandLine))
        return ConfigurationNode(.sequence([listener]), at: .commandLine)
    }

    /// With the defaults that follow from other keys, as far as a file could say the same in writing.
    private static func completed(_ tree: ConfigurationNode) -> ConfigurationNode {
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

    /// The tree without what this version cannot do, each named as a fault or warning.
    private mutating func withoutUnbuilt(_ node: ConfigurationNode, keys section: String, shown: String)
        -> ConfigurationNode
    {
        guard case .mapping(let entries) = node.content else { return node }
        let kept = entries.compactMap { entry -> ConfigurationNode.Entry? in
            guard let key = ConfigurationKeys.keys(in: section).first(where: { $0.name == entry.key }) else {
                return entry
            }
            let name = shown.isEmpty ? entry.key : "\(shown).\(entry.key)"
            if let unbuilt = NotInThisVersion.forbids(entry.value, at: key.path) {
                report(unbuilt, entry, key: key, shown: name)
                guard unbuilt.isFault else { return nil }
                return .init(key: entry.key, place: entry.place, value: .init(.invalid, at: entry.value.place))
            }
            var entry = entry
            entry.value = withoutUnbuilt(below: entry.value, of: key, shown: name)
            return entry
        }
        return ConfigurationNode(.mapping(kept), at: node.place)
    }

    private mutating func withoutUnbuilt(
        below node: ConfigurationNode, of key: ConfigurationKey, shown: String
    ) -> ConfigurationNode {
        switch (key.kind, node.content) {
        case (.section, .mapping): return withoutUnbuilt(node, keys: key.below, shown: shown)
        case (.sections, .sequence(let elements)):
            let kept = elements.enumerated().map { withoutUnbuilt($1, keys: key.below, shown: "\(shown)[\($0)]") }
            return ConfigurationNode(.sequence(kept), at: node.place)
        case (.named, .mapping(let entries)):
            let kept = entries.map { entry in
                ConfigurationNode.Entry(
                    key: entry.key, place: entry.place,
                    value: withoutUnbuilt(entry.value, keys: key.below, shown: "\(shown).\(entry.key)"))
            }
            return ConfigurationNode(.mapping(kept), at: node.place)
        default: return node
        }
    }

    private mutating func report(
        _ unbuilt: NotInThisVersion, _ entry: ConfigurationNode.Entry, key: ConfigurationKey, shown: String
    ) {
        let value = unbuilt.values == .any ? "" : entry.value.text.map { " \(ConfigurationText.quoted($0))" } ?? ""
        // A mapping's own place is its first key; its name stands where the eye looks.
        let place = entry.value.text == nil ? entry.place : entry.value.place
        faults.append(
            ConfigurationFault(
                unbuilt.isFault ? .fault : .warning, at: place, "\(shown)\(value) is not in this version",
                remedy: unbuilt.isFault
                    ? unbuilt.instead ?? "remove it if Lanyard may run without it"
                    : "it is ignored: " + (unbuilt.instead ?? key.standard.map { "\($0) holds" } ?? "remove it")))
    }

    // MARK: - What is told

    /// In order; of more than a hundred faults the first hundred that keep Lanyard from starting, if any does.
    private func told(_ faults: [ConfigurationFault]) -> [ConfigurationFault] {
        let all = sorted(faults)
        guard all.count > ConfigurationCheck.faultsMax else { return all }
        let grave = all.filter { $0.severity != .warning }
        let kept = grave.isEmpty ? all : grave
        guard kept.count > ConfigurationCheck.faultsMax else { return kept }
        let next = kept[ConfigurationCheck.faultsMax]
        let rest = ConfigurationFault(
            next.severity, at: next.place, "and more faults from here on", remedy: "mend those above first")
        return kept.prefix(ConfigurationCheck.faultsMax) + [rest]
    }

    /// By source, and within a file by line.
    private func sorted(_ faults: [ConfigurationFault]) -> [ConfigurationFault] {
        func rank(_ fault: ConfigurationFault, _ order: Int) -> (Int, Int, Int, Int) {
            switch fault.place {
            case .wholeFile: (0, 0, 0, order)
            case .file(_, let line, let column): (1, line, column, order)
            case .environment: (2, 0, 0, order)
            case .flag: (3, 0, 0, order)
            case .commandLine: (4, 0, 0, order)
            }
        }
        return faults.enumerated().sorted { rank($0.element, $0.offset) < rank($1.element, $1.offset) }.map(\.element)
    }
}
