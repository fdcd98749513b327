import FlyingFox
import Foundation

extension JSONValue {
    subscript(key: String) -> JSONValue? {
        if case .object(let members) = self { members[key] } else { nil }
    }

    var string: String? { if case .string(let value) = self { value } else { nil } }
    var double: Double? { if case .number(let value) = self { value } else { nil } }
    var int: Int? { double.flatMap(Int.init(exactly:)) }
    var bool: Bool? { if case .boolean(let value) = self { value } else { nil } }

    /// Compact JSON with sorted keys. Whole numbers have no fraction.
    var text: String {
        let options: JSONSerialization.WritingOptions = [.sortedKeys, .withoutEscapingSlashes, .fragmentsAllowed]
        // Only non-finite numbers can fail, and the emulator creates none.
        guard let data = try? JSONSerialization.data(withJSONObject: plain, options: options) else { return "null" }
        return String(decoding: data, as: UTF8.self)
    }

    private var plain: Any {
        switch self {
        case .object(let members): members.mapValues(\.plain)
        case .array(let elements): elements.map(\.plain)
        case .string(let value): value
        case .number(let value): Int(exactly: value).map { $0 as Any } ?? value
        case .boolean(let value): value
        case .null: NSNull()
        }
    }

    static func int(_ value: Int) -> JSONValue { .number(Double(value)) }
}
