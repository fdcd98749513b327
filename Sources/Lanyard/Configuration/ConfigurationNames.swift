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
