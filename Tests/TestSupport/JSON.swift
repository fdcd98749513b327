import Foundation

/// A JSON value that tests read with subscripts: `response["users"][0]["name"].string`. A missing value is `.null`.
package enum JSON: Equatable, Sendable {
    case null
    case bool(Bool)
    case number(Double)
    case string(String)
    case array([JSON])
    case object([String: JSON])

    /// Reads one JSON document.
    ///
    /// - Throws: `TestFailure` with the text that is not JSON.
    package init(_ bytes: some Sequence<UInt8>) throws {
        let data = Data(bytes)
        guard let value = try? JSONSerialization.jsonObject(with: data, options: .fragmentsAllowed) else {
            throw TestFailure("no JSON: \(String(decoding: data, as: UTF8.self))")
        }
        self.init(any: value)
    }

    /// Reads one JSON document of text.
    package init(text: String) throws { try self.init(text.utf8) }

    private init(any: Any) {
        switch any {
        // CFBoolean and NSNumber are one class here; only the type code tells true from 1.
        case let number as NSNumber where String(cString: number.objCType) == "c": self = .bool(number.boolValue)
        case let number as NSNumber: self = .number(number.doubleValue)
        case let string as String: self = .string(string)
        case let array as [Any]: self = .array(array.map(JSON.init(any:)))
        case let object as [String: Any]: self = .object(object.mapValues(JSON.init(any:)))
        default: self = .null
        }
    }

    /// A member; `.null` when there is none.
    package subscript(key: String) -> JSON {
        if case .object(let members) = self { members[key] ?? .null } else { .null }
    }

    /// An element; `.null` when there is none.
    package subscript(index: Int) -> JSON {
        if case .array(let elements) = self, elements.indices.contains(index) { elements[index] } else { .null }
    }

    /// The text of a string.
    package var string: String? { if case .string(let value) = self { value } else { nil } }
    /// The value of a number.
    package var double: Double? { if case .number(let value) = self { value } else { nil } }
    /// The value of a number without a fraction.
    package var int: Int? { double.flatMap(Int.init(exactly:)) }
    /// The value of `true` or `false`.
    package var bool: Bool? { if case .bool(let value) = self { value } else { nil } }
    /// The elements; empty if it is not an array.
    package var array: [JSON] { if case .array(let value) = self { value } else { [] } }
    /// The members; empty if it is not an object.
    package var object: [String: JSON] { if case .object(let value) = self { value } else { [:] } }
}
