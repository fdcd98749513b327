/// The names of users or identities, for those keys that refer to them.
struct ConfigurationNames {
    /// Names in one message at most.
    private static let listedMax = 20

    /// In the order of the file.
    let all: [String]
    /// Some could not be read: a name that is not known here may be one of them.
    let isPartial: Bool
    private let known: Set<String>
    /// How many more names an unknown one is compared with: a long file with a long list of mistakes must not take minutes.
    private var comparisonsLeft = 100_000

    /// - Parameter key: of a mapping from names to what bears them.
    init(_ key: String, in tree: ConfigurationNode) {
        all = tree[key]?.entries.filter { !$0.isUnread }.map(\.key) ?? []
        known = Set(all)
        isPartial = ConfigurationSection(tree).isUnread(key)
    }

    /// Whether a name is certainly that of nobody.
    func isUnknown(_ name: String) -> Bool { !isPartial && !known.contains(name) }

    func contains(_ name: String) -> Bool { known.contains(name) }

    /// "did you mean …?", if one of the names is near.
    mutating func suggestion(for name: String) -> String? {
        guard comparisonsLeft > 0 else { return nil }
        comparisonsLeft -= all.count
        return NearestName.of(name, among: all).map { "did you mean \"\($0)\"?" }
    }

    /// The names as a message lists them.
    var listed: String {
        all.prefix(Self.listedMax).joined(separator: ", ") + (all.count > Self.listedMax ? ", …" : "")
    }
}
