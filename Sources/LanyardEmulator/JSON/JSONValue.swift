import Foundation

/// A JSON value that keeps the order of members and every digit of numbers. FlyingFox's own type keeps neither.
enum JSONValue: Equatable, Sendable {
    case null
    case boolean(Bool)
    /// The number as it was written, in JSON's grammar.
    case number(String)
    case string(String)
    case array([JSONValue])
    case object(JSONObject)

    /// Reads one JSON document.
    ///
    /// - Throws: `JSONReader.ReadError`.
    init(data: Data) throws(JSONReader.ReadError) { self = try JSONReader.read([UInt8](data)) }

    static func int(_ value: Int) -> JSONValue { .number(String(value)) }

    /// A finite number. Whole numbers have no fraction.
    static func double(_ value: Double) -> JSONValue {
        .number(Int(exactly: value).map { String($0) } ?? "\(value)")
    }

    static func orNull(_ text: String?) -> JSONValue { if let text { .string(text) } else { .null } }
    static func orNull(_ number: Int?) -> JSONValue { if let number { .int(number) } else { .null } }
    static func orNull(_ number: Double?) -> JSONValue { if let number { .double(number) } else { .null } }

    /// An object of pairs in their order. A pair whose value is nil is left out.
    static func members(_ pairs: KeyValuePairs<String, JSONValue?>) -> JSONValue {
        .object(JSONObject(pairs.map { ($0.key, $0.value) }))
    }

    subscript(key: String) -> JSONValue? { if case .object(let object) = self { object[key] } else { nil } }

    var string: String? { if case .string(let value) = self { value } else { nil } }
    var bool: Bool? { if case .boolean(let value) = self { value } else { nil } }
    var double: Double? { if case .number(let digits) = self { Double(digits) } else { nil } }
    var array: [JSONValue]? { if case .array(let elements) = self { elements } else { nil } }
    var object: JSONObject? { if case .object(let object) = self { object } else { nil } }
    var int: Int? {
        guard case .number(let digits) = self else { return nil }
        return Int(digits) ?? Double(digits).flatMap { Int(exactly: $0) }
    }

    /// The value at a path of names. A dot nests, and `\.` is a dot in a name.
    func value(at path: String) -> JSONValue? {
        var value: JSONValue? = self
        for name in Self.names(in: path) { value = value?[name] }
        return value
    }

    /// The names of a path.
    static func names(in path: String) -> [String] {
        var names = [""]
        var isEscaped = false
        for character in path {
            if !isEscaped, character == "\\" {
                isEscaped = true
                continue
            }
            if !isEscaped, character == "." { names.append("") } else { names[names.count - 1].append(character) }
            isEscaped = false
        }
        return names
    }

    /// Compact JSON.
    var text: String {
        var text = ""
        write(to: &text)
        return text
    }

    private func write(to text: inout String) {
        switch self {
        case .null: text += "null"
        case .boolean(let value): text += value ? "true" : "false"
        case .number(let digits): text += digits
        case .string(let value): Self.write(value, to: &text)
        case .array(let elements):
            text += "["
            for (index, element) in elements.enumerated() {
                if index > 0 { text += "," }
                element.write(to: &text)
            }
            text += "]"
        case .object(let object):
            text += "{"
            for (index, member) in object.members.enumerated() {
                if index > 0 { text += "," }
                Self.write(member.key, to: &text)
                text += ":"
                member.value.write(to: &text)
            }
            text += "}"
        }
    }

    private static func write(_ value: String, to text: inout String) {
        text += "\""
        for scalar in value.unicodeScalars {
            switch scalar {
            case "\"": text += "\\\""
            case "\\": text += "\\\\"
            case "\n": text += "\\n"
            case "\r": text += "\\r"
            case "\t": text += "\\t"
            case _ where scalar.value < 0x20: text += "\\u00" + Identifiers.hex([UInt8(scalar.value)])
            default: text.unicodeScalars.append(scalar)
            }
        }
        text += "\""
    }
}

extension JSONValue: ExpressibleByStringLiteral, ExpressibleByBooleanLiteral, ExpressibleByIntegerLiteral {
    init(stringLiteral value: String) { self = .string(value) }
    init(booleanLiteral value: Bool) { self = .boolean(value) }
    init(integerLiteral value: Int) { self = .int(value) }
}

/// In a snapshot a value is a string with JSON in it, because Foundation's coders keep neither order nor digits.
extension JSONValue: Codable {
    init(from decoder: any Decoder) throws {
        self = try JSONReader.read(Array(decoder.singleValueContainer().decode(String.self).utf8))
    }

    func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(text)
    }
}

extension JSONObject: Codable {
    init(from decoder: any Decoder) throws { self = try JSONValue(from: decoder).object ?? JSONObject() }

    func encode(to encoder: any Encoder) throws { try JSONValue.object(self).encode(to: encoder) }
}
