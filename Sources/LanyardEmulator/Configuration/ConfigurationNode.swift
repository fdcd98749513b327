import CYAML
import Foundation

/// One value of a configuration with the line where it begins. YAML and JSON have the same values here, because JSON is YAML.
enum ConfigurationNode {
    /// `isPlain`: without quotes, so that `5`, `true` and `null` are no text in a place where any value may stand.
    case text(String, isPlain: Bool, line: Int)
    case list([ConfigurationNode], line: Int)
    case map([Member], line: Int)

    /// A struct, because with a tuple the compiler's incremental builds end in "circular reference".
    struct Member {
        let key: String
        let value: ConfigurationNode
    }

    /// Aliases may repeat a value any number of times.
    private static let nodesMax = 100_000
    /// An alias may refer to its own ancestor.
    private static let depthMax = 40

    var line: Int {
        switch self {
        case .text(_, _, let line), .list(_, let line), .map(_, let line): line
        }
    }

    /// Reads a YAML document. An empty one is an empty map.
    static func read(_ bytes: [UInt8]) throws(SeedReader.ReadError) -> ConfigurationNode {
        var parser = yaml_parser_t()
        yaml_parser_initialize(&parser)
        defer { yaml_parser_delete(&parser) }
        return try bytes.withUnsafeBufferPointer { buffer throws(SeedReader.ReadError) in
            yaml_parser_set_input_string(&parser, buffer.baseAddress, buffer.count)
            var document = yaml_document_t()
            guard yaml_parser_load(&parser, &document) == 1 else {
                let problem = parser.problem.map { String(cString: $0) } ?? "no YAML"
                throw SeedReader.ReadError(line: Int(parser.problem_mark.line) + 1, problem)
            }
            defer { yaml_document_delete(&document) }
            guard let root = yaml_document_get_root_node(&document) else { return .map([], line: 1) }
            var left = nodesMax
            return try node(root.pointee, &document, depth: 0, left: &left)
        }
    }

    private static func node(
        _ node: yaml_node_t, _ document: inout yaml_document_t, depth: Int, left: inout Int
    ) throws(SeedReader.ReadError) -> ConfigurationNode {
        let line = Int(node.start_mark.line) + 1
        left -= 1
        guard depth < depthMax, left > 0 else { throw .init(line: line, "too deep, or too large") }
        switch node.type {
        case YAML_SCALAR_NODE:
            let bytes = UnsafeBufferPointer(start: node.data.scalar.value, count: node.data.scalar.length)
            let isPlain = node.data.scalar.style == YAML_PLAIN_SCALAR_STYLE
            return .text(String(decoding: bytes, as: UTF8.self), isPlain: isPlain, line: line)
        case YAML_SEQUENCE_NODE:
            let items = node.data.sequence.items
            var elements: [ConfigurationNode] = []
            for index in UnsafeBufferPointer(start: items.start, count: items.top - items.start) {
                let item = yaml_document_get_node(&document, index).pointee
                elements.append(try self.node(item, &document, depth: depth + 1, left: &left))
            }
            return .list(elements, line: line)
        default:
            let pairs = node.data.mapping.pairs
            var members: [Member] = []
            for pair in UnsafeBufferPointer(start: pairs.start, count: pairs.top - pairs.start) {
                let keyNode = yaml_document_get_node(&document, pair.key).pointee
                let key = try self.node(keyNode, &document, depth: depth + 1, left: &left)
                guard case .text(let name, _, _) = key else { throw .init(line: key.line, "a key is no text") }
                guard !members.contains(where: { $0.key == name }) else {
                    throw .init(line: key.line, "\(name) is there twice")
                }
                let value = yaml_document_get_node(&document, pair.value).pointee
                let read = try self.node(value, &document, depth: depth + 1, left: &left)
                members.append(Member(key: name, value: read))
            }
            return .map(members, line: line)
        }
    }
}

/// Reading with errors that name the line.
extension ConfigurationNode {
    /// The members of a map with known names.
    func members(_ known: [String]) throws(SeedReader.ReadError) -> [(key: String, value: ConfigurationNode)] {
        let members = try members()
        if let unknown = members.first(where: { !known.contains($0.key) }) {
            throw .init(
                line: line, "unknown key \(unknown.key); known are \(known.joined(separator: ", "))")
        }
        return members
    }

    /// The members of a map with any names.
    func members() throws(SeedReader.ReadError) -> [(key: String, value: ConfigurationNode)] {
        guard case .map(let members, _) = self else { throw .init(line: line, "expected a map") }
        return members.map { ($0.key, $0.value) }
    }

    func elements() throws(SeedReader.ReadError) -> [ConfigurationNode] {
        guard case .list(let elements, _) = self else { throw .init(line: line, "expected a list") }
        return elements
    }

    func text(_ key: String) throws(SeedReader.ReadError) -> String {
        guard case .text(let text, _, _) = self else { throw .init(line: line, "\(key) is no text") }
        return text
    }

    func texts(_ key: String) throws(SeedReader.ReadError) -> [String] {
        var texts: [String] = []
        for element in try elements() { texts.append(try element.text(key)) }
        return texts
    }

    func flag(_ key: String) throws(SeedReader.ReadError) -> Bool {
        switch try text(key) {
        case "true": return true
        case "false": return false
        default: throw .init(line: line, "\(key) is true or false")
        }
    }

    /// A whole number of at least `least`.
    func count(_ key: String, least: Int) throws(SeedReader.ReadError) -> Int {
        guard let number = Int(try text(key)), number >= least else {
            throw .init(line: line, "\(key) is a whole number from \(least)")
        }
        return number
    }

    func seconds(_ key: String) throws(SeedReader.ReadError) -> Double {
        guard let number = Double(try text(key)), number >= 0, number.isFinite else {
            throw .init(line: line, "\(key) is a number of seconds")
        }
        return number
    }

    /// Any JSON value. Text without quotes that is a JSON number, `true`, `false`, `null` or `~` is that.
    var json: JSONValue {
        switch self {
        case .text(let text, true, _):
            if text == "~" || text.isEmpty { return .null }
            let value = try? JSONReader.read(Array(text.utf8))
            return switch value {
            case .number, .boolean, .null: value ?? .null
            default: .string(text)
            }
        case .text(let text, false, _): return .string(text)
        case .list(let elements, _): return .array(elements.map(\.json))
        case .map(let members, _): return .object(JSONObject(members.map { ($0.key, $0.value.json) }))
        }
    }

    func object(_ key: String) throws(SeedReader.ReadError) -> JSONObject {
        guard let object = json.object else { throw .init(line: line, "\(key) is a map") }
        return object
    }
}
