import CYAML
import Foundation

/// Users and keys that exist from the start.
public struct Seed: Sendable {
    /// A confirmed email/password user.
    public struct User: Sendable {
        /// Compared case-sensitively.
        public var email: String
        /// Any length. Only registration requires 6 to 128 characters.
        public var password: String

        /// A user that has not logged in yet.
        public init(email: String, password: String) {
            self.email = email
            self.password = password
        }
    }

    /// An API key: a user's key if `email` is set, else a server key.
    public struct Key: Sendable {
        /// The name in the profile of a server user.
        public var name: String
        /// The secret. The real service creates 64 alphanumeric characters.
        public var key: String
        /// The owner; nil for a server key.
        public var email: String?

        /// An enabled key.
        public init(name: String, key: String, email: String? = nil) {
            self.name = name
            self.key = key
            self.email = email
        }
    }

    /// Confirmed users.
    public var users: [User] = []
    /// Enabled keys.
    public var keys: [Key] = []

    /// No users and no keys.
    public init() {}
}

/// Reads a seed file:
///
///     users:
///       - {email: alice@example.com, password_file: alice.password}
///       - {email: bob@example.com, password: correct-horse}
///     api_keys:
///       - {name: ci, key_file: ci.key, user: alice@example.com}
///
/// JSON is YAML, so a JSON file works, too. Relative paths start from the seed file's folder.
public enum SeedReader {
    /// Why a seed cannot be used, with the line. A type of its own, because it is for the developer, before the start.
    public struct ReadError: Error, CustomStringConvertible {
        /// One sentence for the developer.
        public let description: String
    }

    private indirect enum Node {
        case text(String, line: Int)
        case list([Node], line: Int)
        case map([(key: String, value: Node)], line: Int)

        var line: Int {
            switch self {
            case .text(_, let line), .list(_, let line), .map(_, let line): line
            }
        }
    }

    /// - Throws: `ReadError`.
    public static func read(_ path: String) throws -> Seed {
        guard let data = FileManager.default.contents(atPath: path) else {
            throw ReadError(description: "\(path): cannot be read")
        }
        let folder = (path as NSString).deletingLastPathComponent
        do {
            return try seed(try tree([UInt8](data)), folder: folder.isEmpty ? "." : folder)
        } catch let failure as ReadError {
            throw ReadError(description: "\(path): \(failure.description)")
        }
    }

    /// The secret in a file: everything except one final newline.
    public static func secret(_ path: String) throws -> String {
        guard let data = FileManager.default.contents(atPath: path) else {
            throw ReadError(description: "\(path): cannot be read")
        }
        let text = String(decoding: data, as: UTF8.self)
        return text.hasSuffix("\n") ? String(text.dropLast()) : text
    }

    private static func seed(_ root: Node, folder: String) throws -> Seed {
        var seed = Seed()
        for (key, value) in try members(root, allowed: ["users", "api_keys"]) {
            for item in try elements(value) {
                let fields = try texts(item, key == "users" ? ["email", "password"] : ["name", "key", "user"], folder)
                if key == "users" {
                    seed.users.append(
                        .init(
                            email: try required(fields, "email", item), password: try required(fields, "password", item)
                        ))
                } else {
                    seed.keys.append(
                        .init(
                            name: try required(fields, "name", item), key: try required(fields, "key", item),
                            email: fields["user"]))
                }
            }
        }
        return seed
    }

    /// The text members of a map. `…_file` is replaced by the content of the file.
    private static func texts(_ node: Node, _ names: [String], _ folder: String) throws -> [String: String] {
        var fields: [String: String] = [:]
        for (key, value) in try members(node, allowed: names + ["password_file", "key_file"]) {
            guard case .text(let text, _) = value else {
                throw ReadError(description: "line \(value.line): \(key) is no text")
            }
            if key.hasSuffix("_file") {
                fields[String(key.dropLast(5))] = try secret(text.hasPrefix("/") ? text : folder + "/" + text)
            } else {
                fields[key] = text
            }
        }
        return fields
    }

    private static func required(_ fields: [String: String], _ name: String, _ node: Node) throws -> String {
        guard let value = fields[name] else { throw ReadError(description: "line \(node.line): \(name) is missing") }
        return value
    }

    private static func members(_ node: Node, allowed: [String]) throws -> [(key: String, value: Node)] {
        guard case .map(let members, let line) = node else {
            throw ReadError(description: "line \(node.line): expected a map")
        }
        if let unknown = members.first(where: { !allowed.contains($0.key) }) {
            throw ReadError(
                description: "line \(line): unknown key \(unknown.key); known are \(allowed.joined(separator: ", "))")
        }
        return members
    }

    private static func elements(_ node: Node) throws -> [Node] {
        guard case .list(let elements, _) = node else {
            throw ReadError(description: "line \(node.line): expected a list")
        }
        return elements
    }

    private static func tree(_ bytes: [UInt8]) throws -> Node {
        var parser = yaml_parser_t()
        yaml_parser_initialize(&parser)
        defer { yaml_parser_delete(&parser) }
        return try bytes.withUnsafeBufferPointer { buffer in
            yaml_parser_set_input_string(&parser, buffer.baseAddress, buffer.count)
            var document = yaml_document_t()
            guard yaml_parser_load(&parser, &document) == 1 else {
                let problem = parser.problem.map { String(cString: $0) } ?? "no YAML"
                throw ReadError(description: "line \(parser.problem_mark.line + 1): \(problem)")
            }
            defer { yaml_document_delete(&document) }
            guard let root = yaml_document_get_root_node(&document) else { return .map([], line: 1) }
            return try node(root.pointee, &document, depth: 0)
        }
    }

    private static func node(_ node: yaml_node_t, _ document: inout yaml_document_t, depth: Int) throws -> Node {
        let line = Int(node.start_mark.line) + 1
        // An alias may refer to its own ancestor.
        guard depth < 8 else { throw ReadError(description: "line \(line): too deep") }
        switch node.type {
        case YAML_SCALAR_NODE:
            let bytes = UnsafeBufferPointer(start: node.data.scalar.value, count: node.data.scalar.length)
            return .text(String(decoding: bytes, as: UTF8.self), line: line)
        case YAML_SEQUENCE_NODE:
            let items = node.data.sequence.items
            let indices = UnsafeBufferPointer(start: items.start, count: items.top - items.start)
            return .list(
                try indices.map {
                    try self.node(yaml_document_get_node(&document, $0).pointee, &document, depth: depth + 1)
                },
                line: line)
        default:
            let pairs = node.data.mapping.pairs
            let members = try UnsafeBufferPointer(start: pairs.start, count: pairs.top - pairs.start).map { pair in
                let key = try self.node(
                    yaml_document_get_node(&document, pair.key).pointee, &document, depth: depth + 1)
                guard case .text(let name, _) = key else {
                    throw ReadError(description: "line \(key.line): a key is no text")
                }
                let value = yaml_document_get_node(&document, pair.value).pointee
                return (key: name, value: try self.node(value, &document, depth: depth + 1))
            }
            return .map(members, line: line)
        }
    }
}
