/// One key of the configuration: where it stands, what it holds, its default and what it is for.
package struct ConfigurationKey: Equatable, Sendable {
    package enum Kind: Equatable, Sendable {
        /// A mapping with the keys below this one.
        case section
        /// A list of mappings; their keys stand below `path[]`.
        case sections
        /// A mapping from chosen names to mappings; their keys stand below `path.*`.
        case named
        /// A mapping from field names to field values.
        case fields
        case value(ConfigurationValue)
        /// A list of single values.
        case values(ConfigurationValue)
    }

    /// `routes[].timeouts.connect`.
    package let path: String
    /// The last part of the path.
    package let name: String
    /// The path of the section that the key stands in; empty at the top.
    package let section: String
    package let kind: Kind
    /// Words that may stand in place of the value: `none`, `auto`, `off`.
    package let words: [String]
    package let isRequired: Bool
    /// The default as it would be written; nil if there is none or it depends on something.
    package let defaultValue: String?
    /// The default in words, where it cannot be written down.
    package let defaultDescription: String?
    /// What it is for; one line of the reference.
    package let meaning: String

    package init(
        _ path: String, _ kind: Kind, or words: [String] = [], required: Bool = false,
        defaultDescription: String? = nil, _ meaning: String
    ) {
        self.init(
            path: path, kind: kind, words: words, isRequired: required, defaultValue: nil,
            defaultDescription: defaultDescription, meaning: meaning)
    }

    package init(_ path: String, _ kind: Kind, or words: [String] = [], _ defaultValue: String, _ meaning: String) {
        self.init(
            path: path, kind: kind, words: words, isRequired: false, defaultValue: defaultValue,
            defaultDescription: nil,
            meaning: meaning)
    }

    private init(
        path: String, kind: Kind, words: [String], isRequired: Bool, defaultValue: String?, defaultDescription: String?,
        meaning: String
    ) {
        self.path = path
        name = String(path.split(separator: ".").last ?? "")
        section = path.lastIndex(of: ".").map { String(path[..<$0]) } ?? ""
        self.kind = kind
        self.words = words
        self.isRequired = isRequired
        self.defaultValue = defaultValue
        self.defaultDescription = defaultDescription
        self.meaning = meaning
    }

    /// Where the keys of this one's mappings stand.
    package var below: String {
        switch kind {
        case .sections: path + "[]"
        case .named: path + ".*"
        default: path
        }
    }

    /// The key's place among flags: single values outside lists and chosen names only.
    package var flag: String? {
        guard case .value = kind, !path.contains("[]"), !path.contains("*") else { return nil }
        return "--" + String(path.map { $0 == "." || $0 == "_" ? "-" : $0 })
    }

    /// The flag's twin in the environment.
    package var environment: String? {
        flag.map { "LANYARD_" + String($0.dropFirst(2).map { $0 == "-" ? "_" : $0 }).uppercased() }
    }

    /// What may be written, for the reference.
    package var unit: String {
        let kind =
            switch kind {
            case .section: "mapping"
            case .sections: "list of mappings"
            case .named: "names to mappings"
            case .fields: "field names to field values"
            case .value(let value): value.wanted
            case .values(let value): "list: " + value.wanted
            }
        return ([kind] + words.map { "`\($0)`" }).joined(separator: ", or ")
    }
}
