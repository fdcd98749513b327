/// One mapping of the checked tree, read key by key into settings. An absent or invalid value keeps the setting's default.
struct ConfigurationSection {
    let node: ConfigurationNode

    init(_ node: ConfigurationNode?) {
        self.node = node ?? ConfigurationNode(.mapping([]), at: .commandLine)
    }

    /// A section that is not there is an empty one at the place of this one, so that what is missing in it has a place in the file.
    func section(_ key: String) -> ConfigurationSection {
        ConfigurationSection(node[key] ?? ConfigurationNode(.mapping([]), at: node.place))
    }

    /// The text of a valid single value.
    func text(_ key: String) -> String? { node[key]?.text }

    /// The texts of a valid list.
    func texts(_ key: String) -> [String]? {
        guard case .sequence(let elements) = node[key]?.content else { return nil }
        return elements.compactMap(\.text)
    }

    /// Whether the key was given, with a valid or invalid value.
    func has(_ key: String) -> Bool { node[key] != nil }

    /// Whether the key or a part of it may have been given and could not be read.
    ///
    /// An error was reported then. Errors that follow from its value or absence would repeat that one.
    func isUnread(_ key: String) -> Bool { node[key]?.hasUnread ?? node.hasUnread }

    /// The place of the key's value; without one, the place of the section.
    func place(_ key: String) -> ConfigurationPlace { node[key]?.place ?? node.place }

    func fill(_ target: inout Bool, _ key: String) {
        if let value = text(key).flatMap(ConfigurationText.boolean) { target = value }
    }

    func fill(_ target: inout Duration, _ key: String) {
        if let value = text(key).flatMap(ConfigurationText.duration) { target = value }
    }

    /// `none` and zero are nil.
    func fill(_ target: inout Duration?, _ key: String) {
        guard let text = text(key) else { return }
        target = ConfigurationText.duration(text).flatMap { $0 == .zero ? nil : $0 }
    }

    /// A number or a size.
    func fill(_ target: inout Int, _ key: String) {
        if let value = text(key).flatMap(Self.number) { target = value }
    }

    /// `none` and `auto` are nil.
    func fill(_ target: inout Int?, _ key: String) {
        if let text = text(key) { target = Self.number(text) }
    }

    /// `none` is nil.
    func fill(_ target: inout Int64?, _ key: String) {
        if let text = text(key) { target = ConfigurationText.size(text) }
    }

    func fill(_ target: inout [String], _ key: String) {
        if let texts = texts(key) { target = texts }
    }

    func fill<Word: RawRepresentable<String>>(_ target: inout Word, _ key: String) {
        if let word = text(key).flatMap(Word.init(rawValue:)) { target = word }
    }

    func fill<Word: RawRepresentable<String>>(_ target: inout Word?, _ key: String) {
        if let word = text(key).flatMap(Word.init(rawValue:)) { target = word }
    }

    private static func number(_ text: String) -> Int? {
        ConfigurationText.integer(text) ?? ConfigurationText.size(text).map { Int($0) }
    }
}

/// The names of users or identities, for keys that refer to them.
struct ConfigurationNames {
    /// Names in one message.
    private static let listedMax = 20

    /// In the order of the file.
    let all: [String]
    /// Some entries could not be read. A name that is unknown here may be one of them.
    let isPartial: Bool
    private let known: Set<String>
    /// Comparisons left for suggestions. The limit keeps a long file with many unknown names from taking minutes.
    private var comparisonsLeft = 100_000

    /// - Parameter key: the key of a mapping. The keys of that mapping are the names.
    init(_ key: String, in tree: ConfigurationNode) {
        all = tree[key]?.entries.filter { !$0.isUnread }.map(\.key) ?? []
        known = Set(all)
        isPartial = ConfigurationSection(tree).isUnread(key)
    }

    /// Whether a name certainly does not exist.
    func isUnknown(_ name: String) -> Bool { !isPartial && !known.contains(name) }

    func contains(_ name: String) -> Bool { known.contains(name) }

    /// "did you mean …?" if a similar name exists.
    mutating func suggestion(for name: String) -> String? {
        guard comparisonsLeft > 0 else { return nil }
        comparisonsLeft -= all.count
        return NearestName.of(name, among: all).map { "did you mean \"\($0)\"?" }
    }

    /// The names as a list for a message.
    var listed: String {
        all.prefix(Self.listedMax).joined(separator: ", ") + (all.count > Self.listedMax ? ", …" : "")
    }
}
