/// One value of the configuration with its place. Scalars stay text until a key gives them a type.
package struct ConfigurationNode: Equatable, Sendable {
    /// What stands at the place.
    package enum Content: Equatable, Sendable {
        case scalar(String)
        case sequence([ConfigurationNode])
        case mapping([Entry])
        /// An error was reported for this value. Later checks report nothing more about it.
        case invalid
    }

    /// One key of a mapping with its value.
    package struct Entry: Equatable, Sendable {
        /// Unique in its mapping.
        package var key: String
        package var place: ConfigurationPlace
        /// The value at the key.
        package var value: ConfigurationNode
        /// As of `ConfigurationNode`, for the key.
        package var isPlain = false

        package init(key: String, place: ConfigurationPlace, value: ConfigurationNode, isPlain: Bool = false) {
            self.key = key
            self.place = place
            self.value = value
            self.isPlain = isPlain
        }

        /// The key of `unread`. No other key or chosen name is empty.
        private static let unreadKey = ""

        /// Whether this entry is `unread`.
        var isUnread: Bool { key == Self.unreadKey && value.content == .invalid }

        /// Replaces entries with an unknown key and a reported error. They cannot be distinguished from absent ones.
        static func unread(at place: ConfigurationPlace) -> Entry {
            Entry(key: unreadKey, place: place, value: ConfigurationNode(.invalid, at: place))
        }
    }

    package var place: ConfigurationPlace
    /// What stands at the place.
    package var content: Content
    /// A scalar of a file that has no quotes: other readers of YAML may take it for something else than text.
    package var isPlain = false

    package init(_ content: Content, at place: ConfigurationPlace, isPlain: Bool = false) {
        self.content = content
        self.place = place
        self.isPlain = isPlain
    }

    /// The entries of a mapping; none for anything else.
    package var entries: [Entry] {
        if case .mapping(let entries) = content { entries } else { [] }
    }

    /// The elements of a sequence; none for anything else.
    package var elements: [ConfigurationNode] {
        if case .sequence(let elements) = content { elements } else { [] }
    }

    /// The text of a scalar.
    package var text: String? {
        if case .scalar(let text) = content { text } else { nil }
    }

    /// The value at a key of a mapping; nil: there is none, or this is no mapping.
    package subscript(key: String) -> ConfigurationNode? {
        entries.first { $0.key == key }?.value
    }

    /// The values of a mapping, for many lookups.
    var valuesByKey: [String: ConfigurationNode] {
        Dictionary(entries.map { ($0.key, $0.value) }) { first, _ in first }
    }

    /// A part of this value could not be read and is not in the tree. A key that seems absent may have been given.
    package var hasUnread: Bool {
        switch content {
        case .invalid: true
        case .scalar: false
        case .sequence(let elements): elements.contains { $0.content == .invalid }
        case .mapping(let entries): entries.contains(where: \.isUnread)
        }
    }

    /// The kind of content, for a message.
    package var shape: String {
        switch content {
        case .scalar(let text): text.isEmpty ? "nothing" : "a single value"
        case .sequence: "a list"
        case .mapping: "a mapping"
        case .invalid: "an invalid value"
        }
    }

    /// Sets `value` at a path of mapping keys. Missing mappings on the path are created, and other values on it are replaced.
    package mutating func set(_ path: some Collection<String>, to value: ConfigurationNode) {
        guard let key = path.first else {
            self = value
            return
        }
        var entries = self.entries
        let index = entries.firstIndex { $0.key == key }
        var child = index.map { entries[$0].value } ?? ConfigurationNode(.mapping([]), at: value.place)
        child.set(path.dropFirst(), to: value)
        if let index {
            entries[index].value = child
        } else {
            entries.append(Entry(key: key, place: value.place, value: child))
        }
        content = .mapping(entries)
    }

    /// Merges `other` into this node: its scalars and lists replace, mappings are merged.
    ///
    /// A mapping over a value that could not be read leaves an `unread` entry.
    package mutating func overlay(_ other: ConfigurationNode) {
        if content == .invalid, case .mapping(let above) = other.content {
            content = .mapping(above.filter { !$0.isUnread } + [.unread(at: place)])
            return
        }
        guard case .mapping(let above) = other.content, case .mapping(var entries) = content else {
            self = other
            return
        }
        for entry in above {
            if let index = entries.firstIndex(where: { $0.key == entry.key }) {
                entries[index].value.overlay(entry.value)
            } else {
                entries.append(entry)
            }
        }
        content = .mapping(entries)
    }
}
