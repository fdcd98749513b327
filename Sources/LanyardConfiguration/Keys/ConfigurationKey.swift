/// One key of the configuration: its path, kind, default and meaning.
package struct ConfigurationKey: Equatable, Sendable {
    /// What stands at the key.
    package enum Kind: Equatable, Sendable {
        /// A mapping. Its keys are below this key's path.
        case section
        /// A list of mappings. Their keys are below `path[]`.
        case sections
        /// A mapping from chosen names to mappings. Their keys are below `path.*`.
        case named
        /// A mapping from field names to field values, or to mappings `{file: PATH}`. Their keys are below `path.*`.
        case fields
        /// A mapping from names of form fields to values, or to lists of values.
        case parameters
        case value(ConfigurationValue)
        /// A list of single values.
        case values(ConfigurationValue)
        /// The same; a list of one may be written as the value. The checked tree has the list.
        case oneOrMore(ConfigurationValue)

        /// A list of single values stands in the checked tree.
        var isList: Bool {
            switch self {
            case .values, .oneOrMore: true
            case .section, .sections, .named, .fields, .parameters, .value: false
            }
        }
    }

    /// A value in place of a mapping.
    package struct Alone: Equatable, Sendable {
        /// The key of the mapping that it stands for.
        package let key: String
        package let value: ConfigurationValue
    }

    /// `routes[].timeouts.connect`.
    package let path: String
    /// The last part of the path.
    package let name: String
    /// The path of the section that holds the key; empty at the top level.
    package let section: String
    /// What stands at the key.
    package let kind: Kind
    /// A single value of a section means the section with this key alone; nil: it has no such form.
    package let alone: Alone?
    /// Words that may replace the value: `none`, `auto`, `off`.
    package let keywords: [String]
    /// A section without the key is an error.
    package let isRequired: Bool
    /// The default as written in a file; nil if there is none or if it depends on other values.
    package let defaultValue: String?
    /// A description of a default that cannot be written in a file.
    package let defaultDescription: String?
    /// The purpose of the key; one line of the reference.
    package let meaning: String

    package init(
        _ path: String, _ kind: Kind, or keywords: [String] = [], required: Bool = false,
        defaultDescription: String? = nil, _ meaning: String
    ) {
        self.init(
            path: path, kind: kind, alone: nil, keywords: keywords, isRequired: required, defaultValue: nil,
            defaultDescription: defaultDescription, meaning: meaning)
    }

    package init(
        _ path: String, _ kind: Kind, alone: Alone? = nil, or keywords: [String] = [], _ defaultValue: String,
        _ meaning: String
    ) {
        self.init(
            path: path, kind: kind, alone: alone, keywords: keywords, isRequired: false, defaultValue: defaultValue,
            defaultDescription: nil,
            meaning: meaning)
    }

    private init(
        path: String, kind: Kind, alone: Alone?, keywords: [String], isRequired: Bool, defaultValue: String?,
        defaultDescription: String?,
        meaning: String
    ) {
        self.path = path
        name = String(path.split(separator: ".").last ?? "")
        section = path.lastIndex(of: ".").map { String(path[..<$0]) } ?? ""
        self.kind = kind
        self.alone = alone
        self.keywords = keywords
        self.isRequired = isRequired
        self.defaultValue = defaultValue
        self.defaultDescription = defaultDescription
        self.meaning = meaning
    }

    /// The same key at another path.
    func moved(to path: String) -> ConfigurationKey {
        ConfigurationKey(
            path: path, kind: kind, alone: alone, keywords: keywords, isRequired: isRequired,
            defaultValue: defaultValue,
            defaultDescription: defaultDescription, meaning: meaning)
    }

    /// The section path of the keys in this key's mappings.
    package var below: String {
        switch kind {
        case .sections: path + "[]"
        case .named, .fields: path + ".*"
        default: path
        }
    }

    /// The key's flag; nil unless it is a value or a list of values that is not in a list or below a chosen name.
    package var flag: String? {
        switch kind {
        case .value, .values, .oneOrMore: break
        default: return nil
        }
        // Byte by byte: each start makes this for all keys, and a `Character` costs a hundred times as much.
        guard !path.utf8.contains(where: { $0 == UInt8(ascii: "[") || $0 == UInt8(ascii: "*") }) else { return nil }
        let name = path.utf8.map { $0 == UInt8(ascii: ".") || $0 == UInt8(ascii: "_") ? UInt8(ascii: "-") : $0 }
        return "--" + String(decoding: name, as: UTF8.self)
    }

    /// The environment variable of the same meaning as the flag.
    package var environment: String? {
        flag.map { ConfigurationFlag.environment(of: $0) }
    }

    /// The allowed values, for the reference.
    package var unit: String {
        let kind =
            switch kind {
            case .section: alone.map { "\($0.value.wanted), or mapping" } ?? "mapping"
            case .sections: "list of mappings"
            case .named: "names to mappings"
            case .fields: "field names to field values, or to `{file: PATH}`"
            case .parameters: "names to values, or to lists of values"
            case .value(let value): value.wanted
            case .values(let value): "list: " + value.wanted
            case .oneOrMore(let value): value.wanted + ", or a list of them"
            }
        return ([kind] + keywords.map { "`\($0)`" }).joined(separator: ", or ")
    }
}
