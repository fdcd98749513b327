import LanyardSettings

/// Checks the tree of one source against the known keys: names, shapes and single values. Wrong parts become `.invalid`.
struct ConfigurationCheck {
    /// Reported errors of one source. A file with more errors is probably not a configuration.
    static let diagnosticsMax = 100

    /// The folder that relative paths start from; nil: the working folder.
    let folder: String?
    private(set) var diagnostics: [ConfigurationError] = []
    /// Upstreams that were accepted: many routes may have the same one.
    private var upstreams: Set<String> = []

    init(folder: String?) { self.folder = folder }

    /// `tree` with its wrong parts marked, and the errors.
    static func run(
        _ tree: ConfigurationNode, folder: String?
    ) -> (tree: ConfigurationNode, diagnostics: [ConfigurationError]) {
        var check = ConfigurationCheck(folder: folder)
        guard case .mapping = tree.content else {
            check.report(tree, "expected a mapping, found \(tree.shape)", remedy: "begin with a key such as listeners:")
            return (ConfigurationNode(.invalid, at: tree.place), check.diagnostics)
        }
        let checked = check.mapping(tree, keys: "", shown: "")
        return (checked, check.diagnostics)
    }

    private mutating func mapping(_ node: ConfigurationNode, keys section: String, shown: String) -> ConfigurationNode {
        let known = ConfigurationKeys.keys(in: section)
        var entries: [ConfigurationNode.Entry] = []
        var unread: ConfigurationNode.Entry?
        for var entry in node.entries {
            // An error was reported when the text was read.
            if entry.isUnread {
                unread = entry
                continue
            }
            guard let key = known.first(where: { $0.name == entry.key }) else {
                reportUnknown(entry, known: known, section: section, shown: shown)
                // The intended key is then not reported as missing.
                if diagnostics.count <= Self.diagnosticsMax,
                    case .spelling(let meant)? = UnknownKey.suggestion(for: entry.key, in: section, among: known),
                    node[meant] == nil,
                    !entries.contains(where: { $0.key == meant })
                {
                    let unread = ConfigurationNode(.invalid, at: entry.value.place)
                    entries.append(.init(key: meant, place: entry.place, value: unread))
                } else {
                    unread = .unread(at: entry.place)
                }
                continue
            }
            let name = entry.key
            entry.value = value(entry.value, of: key, shown: shown.isEmpty ? name : "\(shown).\(name)")
            entries.append(entry)
        }
        if let unread { entries.append(unread) }
        return ConfigurationNode(.mapping(entries), at: node.place)
    }

    /// - Parameter shown: made for sections and errors only. A file has many values.
    private mutating func value(
        _ node: ConfigurationNode, of key: ConfigurationKey, shown makeShown: @autoclosure () -> String
    ) -> ConfigurationNode {
        if node.content == .invalid { return node }
        if let text = node.text, key.keywords.contains(text) { return node }
        if case (.value(let wanted), .scalar(let text)) = (key.kind, node.content) {
            return scalar(text, node, as: wanted, keywords: key.keywords, shown: makeShown())
        }
        let shown = makeShown()
        if let alone = key.alone, let text = node.text {
            let checked = scalar(text, node, as: alone.value, keywords: key.keywords, shown: shown)
            guard checked.content != .invalid else { return checked }
            return ConfigurationNode(
                .mapping([.init(key: alone.key, place: node.place, value: checked)]), at: node.place)
        }
        switch (key.kind, node.content) {
        case (.section, .mapping): return mapping(node, keys: key.below, shown: shown)
        case (.sections, .sequence(let elements)):
            return ConfigurationNode(
                .sequence(
                    elements.enumerated().map { index, element in
                        self.element(element, keys: key.below, shown: "\(shown)[\(index)]")
                    }), at: node.place)
        case (.named, .mapping(let entries)):
            return ConfigurationNode(
                .mapping(named(entries, keys: key.below, shown: shown)), at: node.place)
        case (.fields, .mapping): return fields(node, keys: key.below, shown: shown)
        case (.parameters, .mapping): return parameters(node, shown: shown)
        case (.values(let wanted), .sequence(let elements)):
            return list(elements, of: wanted, at: node.place, shown: shown)
        case (.oneOrMore(let wanted), .scalar(let text)):
            let element = scalar(text, node, as: wanted, keywords: [], shown: shown)
            return element.content == .invalid ? element : ConfigurationNode(.sequence([element]), at: node.place)
        case (.oneOrMore(let wanted), .sequence(let elements)):
            return list(elements, of: wanted, at: node.place, shown: shown)
        case (.section, _), (.named, _), (.fields, _), (.parameters, _):
            return reportWrongShape(node, "a mapping", keywords: key.keywords, shown: shown, below: key.below)
        case (.sections, _), (.values, _): return reportWrongShape(node, "a list", keywords: key.keywords, shown: shown)
        case (.oneOrMore, _): return reportWrongShape(node, "a single value or a list of them", shown: shown)
        case (.value, _):
            return reportWrongShape(
                node, "a single value", keywords: key.keywords, shown: shown, meant: Self.meant(key))
        }
    }

    private mutating func list(
        _ elements: [ConfigurationNode], of wanted: ConfigurationValue, at place: ConfigurationPlace, shown: String
    ) -> ConfigurationNode {
        let checked = elements.map { element in
            guard let text = element.text else { return reportWrongShape(element, "a single value", shown: shown) }
            return scalar(text, element, as: wanted, keywords: [], shown: shown)
        }
        return ConfigurationNode(.sequence(checked), at: place)
    }

    private mutating func element(_ node: ConfigurationNode, keys section: String, shown: String) -> ConfigurationNode {
        if case .mapping = node.content { return mapping(node, keys: section, shown: shown) }
        return node.content == .invalid ? node : reportWrongShape(node, "a mapping", shown: shown)
    }

    private mutating func named(
        _ given: [ConfigurationNode.Entry], keys section: String, shown: String
    ) -> [ConfigurationNode.Entry] {
        var entries: [ConfigurationNode.Entry] = []
        var unread: ConfigurationNode.Entry?
        let known = ConfigurationKeys.keys(in: section)
        for var entry in given {
            guard ConfiguredName.isValid(entry.key) else {
                if !entry.isUnread {
                    report(
                        entry.place,
                        "\(ConfigurationText.quoted(entry.key)) in \(shown) is not \(ConfigurationValue.name.wanted)",
                        remedy: "choose another name")
                }
                unread = .unread(at: entry.place)
                continue
            }
            if entry.isPlain, !checkReading(of: entry.key, entry.place, shown: shown) {
                unread = .unread(at: entry.place)
                continue
            }
            let name = "\(shown).\(entry.key)"
            if let text = entry.value.text, !text.isEmpty, known.contains(where: { $0.name == entry.key }) {
                report(
                    entry.value, "\(name): expected a mapping, found a single value",
                    remedy: "\(entry.key) is a key below a name of \(shown): is the line of the name, such as NAME:, "
                        + "missing?")
                entry.value.content = .invalid
            } else {
                entry.value = element(entry.value, keys: section, shown: name)
            }
            entries.append(entry)
        }
        if let unread { entries.append(unread) }
        return entries
    }

    /// - Parameter section: of mappings that stand in place of a value.
    private mutating func fields(
        _ node: ConfigurationNode, keys section: String, shown: String
    ) -> ConfigurationNode {
        var entries: [ConfigurationNode.Entry] = []
        var names: [String: String] = [:]
        for var entry in node.entries where !entry.isUnread {
            do throws(ConfigurationValue.ValueError) {
                try ConfigurationValue.fieldName.check(entry.key)
            } catch {
                report(entry.place, "\(shown): \(error.message)", remedy: error.remedy)
                continue
            }
            let canonical = FieldText.canonical(entry.key)
            if let duplicate = names[canonical] {
                report(entry.place, "\(shown): \(entry.key) and \(duplicate) are one field", remedy: "keep one of them")
                continue
            }
            names[canonical] = entry.key
            if let text = entry.value.text {
                // A field value may be empty (RFC 9110 §5.5).
                if !text.isEmpty {
                    entry.value = scalar(text, entry.value, as: .fieldValue, keywords: [], shown: shown)
                }
            } else if case .mapping = entry.value.content {
                entry.value = mapping(entry.value, keys: section, shown: "\(shown).\(entry.key)")
            } else {
                entry.value = reportWrongShape(
                    entry.value, "a single value or {file: PATH}", shown: "\(shown).\(entry.key)")
            }
            entries.append(entry)
        }
        return ConfigurationNode(.mapping(entries), at: node.place)
    }

    /// Form fields: which names are allowed is checked where they are read.
    private mutating func parameters(_ node: ConfigurationNode, shown: String) -> ConfigurationNode {
        var entries: [ConfigurationNode.Entry] = []
        for var entry in node.entries where !entry.isUnread {
            let name = "\(shown).\(entry.key)"
            guard 1...64 ~= entry.key.utf8.count, entry.key.utf8.allSatisfy({ 0x21..<0x7f ~= $0 }) else {
                report(
                    entry.place, "\(ConfigurationText.quoted(entry.key)) in \(shown) is no name of a form field",
                    remedy: "write 1 to 64 characters of visible ASCII")
                continue
            }
            if entry.isPlain, !checkReading(of: entry.key, entry.place, shown: shown) { continue }
            switch entry.value.content {
            case .scalar(let text): entry.value = scalar(text, entry.value, as: .text, keywords: [], shown: name)
            case .sequence(let elements):
                let checked = elements.map { element in
                    element.text.map { scalar($0, element, as: .text, keywords: [], shown: name) }
                        ?? reportWrongShape(element, "a single value", shown: name)
                }
                entry.value = ConfigurationNode(.sequence(checked), at: entry.value.place)
            default: entry.value = reportWrongShape(entry.value, "a single value or a list", shown: name)
            }
            entries.append(entry)
        }
        return ConfigurationNode(.mapping(entries), at: node.place)
    }

    private mutating func scalar(
        _ text: String, _ node: ConfigurationNode, as wanted: ConfigurationValue, keywords: [String],
        shown: @autoclosure () -> String
    ) -> ConfigurationNode {
        do throws(ConfigurationValue.ValueError) {
            if wanted != .upstream || !upstreams.contains(text) { try wanted.check(text) }
            if wanted == .upstream { upstreams.insert(text) }
        } catch {
            let other = keywords.isEmpty ? "" : "; or write \(keywords.joined(separator: " or "))"
            let variable = text.contains("${") ? "; no variable is replaced in a value" : ""
            let changed = node.isPlain ? Self.hint(text, wanted, keywords) : ""
            report(node, "\(shown()): \(error.message)", remedy: error.remedy + other + variable + changed)
            return ConfigurationNode(.invalid, at: node.place)
        }
        if wanted.isText, node.isPlain, !checkReading(of: text, node.place, shown: shown()) {
            return ConfigurationNode(.invalid, at: node.place)
        }
        guard case .file = wanted, let folder, !text.hasPrefix("/") else { return node }
        return ConfigurationNode(.scalar("\(folder)/\(text)"), at: node.place)
    }

    /// What an error of a value adds that another program may have made of a word: `off` is `false` for YAML 1.1.
    private static func hint(_ text: String, _ wanted: ConfigurationValue, _ keywords: [String]) -> String {
        var words = keywords
        if case .choice(let choices) = wanted { words += choices }
        guard ["true", "false"].contains(text),
            let word = words.first(where: { PlainScalar($0) == .boolean && $0 != text })
        else { return "" }
        return "; if it was \(word), write \"\(word)\" in quotes: other YAML readers take it for \(text)"
    }

    /// Refuses text without quotes that another program has made of something else, and warns of text that one would change.
    ///
    /// - Returns: false: an error was reported.
    private mutating func checkReading(
        of text: String, _ place: ConfigurationPlace, shown makeShown: @autoclosure () -> String
    ) -> Bool {
        let reading = PlainScalar(text)
        if reading == .text || reading == .number { return true }
        let (quoted, shown) = (ConfigurationText.quoted(text), makeShown())
        switch reading {
        case .text, .number: return true
        case .nothing:
            report(
                place, "\(shown): \(text) without quotes is no value in YAML",
                remedy: "remove it; or write \(quoted) in quotes, if that text is meant")
        case .boolean where ["true", "false"].contains(text.lowercased()):
            report(
                place,
                "\(shown): \(text) without quotes is a truth value in YAML, as other programs also write yes, no, on and off",
                remedy: "write the text that is meant in quotes, such as \"no\" or \(quoted)")
        case .writtenNumber:
            report(
                place, "\(shown): \(text) without quotes is a number in YAML, as another program may have written it",
                remedy: "write the text that is meant in quotes, such as \"123456789012345678901\"")
        case .boolean: warn(place, "\(shown): other YAML readers, such as Helm, take \(text) for a truth value", quoted)
        case .changedNumber:
            warn(
                place,
                "\(shown): other YAML readers, such as Helm, take \(text) for a number and write it in another way",
                quoted)
        case .date: warn(place, "\(shown): other YAML readers, such as Helm, take \(text) for a date", quoted)
        }
        switch reading {
        case .nothing, .writtenNumber: return false
        case .boolean: return !["true", "false"].contains(text.lowercased())
        case .text, .number, .changedNumber, .date: return true
        }
    }

    private mutating func warn(_ place: ConfigurationPlace, _ message: String, _ quoted: String) {
        guard diagnostics.count <= Self.diagnosticsMax else { return }
        diagnostics.append(
            .init(.warning, at: place, message, remedy: "write \(quoted) in quotes, which all of them keep"))
    }

    /// The key with a name like that of `key`, such as `users` for `user`, that does not want a single value.
    private static func meant(_ key: ConfigurationKey) -> String? {
        let others = ConfigurationKeys.keys(in: key.section).filter {
            if case .value = $0.kind { false } else { true }
        }
        return others.map(\.name).first { $0 == key.name + "s" }
    }

    // MARK: - Errors

    private mutating func reportWrongShape(
        _ node: ConfigurationNode, _ wanted: String, keywords: [String] = [], shown: String, meant: String? = nil,
        below: String? = nil
    ) -> ConfigurationNode {
        if node.content == .invalid { return node }
        if let text = node.text, !text.isEmpty, !keywords.isEmpty {
            let nearest = NearestName.of(text, among: keywords).map { "did you mean \"\($0)\"?" }
            let changed = node.isPlain ? Self.hint(text, .text, keywords) : ""
            report(
                node,
                "\(shown): \(ConfigurationText.quoted(text)) is neither \(wanted) nor \(keywords.joined(separator: " or "))",
                remedy: (nearest ?? "write \(keywords.joined(separator: " or ")), or keys and values below it")
                    + changed)
            return ConfigurationNode(.invalid, at: node.place)
        }
        let other = keywords.isEmpty ? "" : " or \(keywords.joined(separator: " or "))"
        let example =
            switch wanted {
            case "a list": "write [ ] around it, or a dash before each element"
            case "a mapping":
                node.text == ""
                    ? "write the keys below it, or {} for none"
                    : Self.keyInPlaceOfMapping(node.text, shown, below) ?? "write keys and values below it"
            default: meant.map { "did you mean \"\($0)\"?" } ?? "write it on the line of its key"
            }
        report(node, "\(shown): expected \(wanted)\(other), found \(node.shape)", remedy: example)
        return ConfigurationNode(.invalid, at: node.place)
    }

    /// What to write where a key of a section stands as its value: `login: client_credentials`.
    private static func keyInPlaceOfMapping(_ text: String?, _ shown: String, _ below: String?) -> String? {
        guard let below else { return nil }
        let keys = ConfigurationKeys.keys(in: below)
        // `device: true`: nothing belongs below it.
        if keys.isEmpty, ConfigurationKeys.all.contains(where: { $0.path == below && $0.kind == .section }) {
            return "write {} in its place"
        }
        guard let text, let meant = NearestName.sameWord(as: text, among: keys.map(\.name)),
            let key = keys.first(where: { $0.name == meant })
        else { return nil }
        let value = if case .value = key.kind { "..." } else { "{}" }
        let name = shown.split(separator: ".").last.map(String.init) ?? shown
        return "write \(name): {\(meant): \(value)}, with the keys of \(meant) in the braces"
    }

    private mutating func reportUnknown(
        _ entry: ConfigurationNode.Entry, known: [ConfigurationKey], section: String, shown: String
    ) {
        guard diagnostics.count <= Self.diagnosticsMax else { return }
        let place = shown.isEmpty ? "" : " in \(shown)"
        let message = "unknown key \(ConfigurationText.quoted(entry.key))\(place)"
        if let file = known.map(\.name).first(where: { $0 == entry.key + "_file" && Self.isSecret($0, in: known) }) {
            let remedy =
                "secrets do not stand in the configuration: write it to a file of mode 0600, and name that file as \(file)"
            return report(entry.place, message, remedy: remedy)
        }
        let remedy =
            switch UnknownKey.suggestion(for: entry.key, in: section, among: known) {
            case .spelling(let name): "did you mean \"\(name)\"?"
            case .meaning(let remedy): remedy
            case nil where known.isEmpty: "nothing belongs below it: write {} in place of its keys"
            case nil: "known here: \(known.map(\.name).joined(separator: ", "))"
            }
        report(entry.place, message, remedy: remedy)
    }

    private static func isSecret(_ name: String, in known: [ConfigurationKey]) -> Bool {
        known.contains { $0.name == name && $0.kind == .value(.file(.secret)) }
    }

    private mutating func report(_ node: ConfigurationNode, _ message: String, remedy: String) {
        report(node.place, message, remedy: remedy)
    }

    private mutating func report(_ place: ConfigurationPlace, _ message: String, remedy: String) {
        // One more than the limit, so that the loader knows that there are more.
        if diagnostics.count <= Self.diagnosticsMax { diagnostics.append(.init(at: place, message, remedy: remedy)) }
    }
}
