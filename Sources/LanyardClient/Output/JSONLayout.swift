import LanyardFoundations

/// A JSON document for operators: indented, and safe on a terminal.
package enum JSONLayout {
    /// The document in lines, indented by two spaces.
    ///
    /// Control characters and separators in strings become escapes. Numbers keep their characters.
    package static func text(_ value: JSONValue) -> OperatorText {
        var text = ""
        write(value, indentation: "", into: &text)
        return OperatorText(page: text)
    }

    private static func write(_ value: JSONValue, indentation: String, into text: inout String) {
        let inner = indentation + "  "
        switch value {
        case .null: text += "null"
        case .bool(let value): text += value ? "true" : "false"
        case .number(let digits): text += digits
        case .string(let string): text += quoted(string)
        case .array(let elements) where elements.isEmpty: text += "[]"
        case .object(let members) where members.isEmpty: text += "{}"
        case .array(let elements):
            text += "[\n"
            for (index, element) in elements.enumerated() {
                text += inner
                write(element, indentation: inner, into: &text)
                text += index == elements.count - 1 ? "\n" : ",\n"
            }
            text += indentation + "]"
        case .object(let members):
            text += "{\n"
            for (index, member) in members.enumerated() {
                text += "\(inner)\(quoted(member.name)): "
                write(member.value, indentation: inner, into: &text)
                text += index == members.count - 1 ? "\n" : ",\n"
            }
            text += indentation + "}"
        }
    }

    private static func quoted(_ string: String) -> String {
        var json = JSONWriter(capacity: string.utf8.count + 2)
        json.string(string)
        return json.text
    }
}
