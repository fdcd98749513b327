import LanyardFoundations

/// A JSON document without secrets as a tree: statuses, lists and problems of the admin API.
package indirect enum JSONValue: Equatable, Sendable {
    case null
    case bool(Bool)
    /// The characters of the number.
    case number(String)
    case string(String)
    case array([JSONValue])
    /// The members in their order.
    case object([Member])

    /// One member of an object.
    package struct Member: Equatable, Sendable {
        package let name: String
        package let value: JSONValue
    }

    /// Containers open at once. A service's profile may be deeper than anything of Lanyard's own.
    private static let depthMax = 128

    /// - Returns: nil if the bytes are not one JSON text.
    package static func read(_ document: Secret) -> JSONValue? {
        document.withBytes { bytes in
            var reader = JSONReader(bytes, depthMax: depthMax)
            do throws(JSONError) {
                let value = try read(reader.next(), &reader, bytes)
                return try reader.next() == .end ? value : nil
            } catch {
                return nil
            }
        }
    }

    private static func read(
        _ token: JSONReader.Token, _ reader: inout JSONReader, _ bytes: UnsafeRawBufferPointer
    ) throws(JSONError) -> JSONValue {
        switch token {
        case .objectStart:
            var members: [Member] = []
            while case .name(let name) = try reader.next() {
                let value = try read(reader.next(), &reader, bytes)
                members.append(Member(name: text(name, bytes), value: value))
            }
            return .object(members)
        case .arrayStart:
            var elements: [JSONValue] = []
            while true {
                let next = try reader.next()
                if next == .arrayEnd { return .array(elements) }
                elements.append(try read(next, &reader, bytes))
            }
        case .string(let string): return .string(text(string, bytes))
        case .number(let range):
            return .number(String(decoding: UnsafeRawBufferPointer(rebasing: bytes[range]), as: UTF8.self))
        case .bool(let value): return .bool(value)
        case .null, .name, .objectEnd, .arrayEnd, .end: return .null
        }
    }

    private static func text(_ text: JSONReader.Text, _ bytes: UnsafeRawBufferPointer) -> String {
        var decoded: [UInt8] = []
        decoded.reserveCapacity(text.range.count)
        JSONText.decode(text, of: bytes) { decoded.append($0) }
        return String(decoding: decoded, as: UTF8.self)
    }

    /// A member of an object; nil: there is none, or it is null.
    package subscript(name: String) -> JSONValue? {
        guard case .object(let members) = self, let member = members.first(where: { $0.name == name }) else {
            return nil
        }
        return member.value == .null ? nil : member.value
    }

    /// The text of a string.
    package var string: String? { if case .string(let value) = self { value } else { nil } }
    /// A whole number.
    package var integer: Int? { if case .number(let digits) = self { Int(digits) } else { nil } }
    /// A number with or without a fraction.
    package var decimal: Double? { if case .number(let digits) = self { Double(digits) } else { nil } }
    /// `true` or `false`.
    package var bool: Bool? { if case .bool(let value) = self { value } else { nil } }
    /// The elements of an array; none for anything else.
    package var elements: [JSONValue] { if case .array(let elements) = self { elements } else { [] } }
    /// A time of the admin API.
    package var time: WallTime? { string.flatMap(Timestamp.read) }
}

/// A secret in a JSON document: read without a copy in ordinary memory.
package enum JSONSecret {
    /// Bytes of the largest one.
    private static let bytesMax = 1 << 20

    /// The text of a member of the top-level object; nil: there is no such string.
    package static func member(_ name: StaticString, of document: Secret) -> Secret? {
        value(of: name, in: document) { token, bytes in
            guard case .string(let text) = token else { return nil }
            return JSONText.secret(text, of: bytes, countMax: bytesMax)
        }
    }

    /// The same of a whole number.
    package static func integer(_ name: StaticString, of document: Secret) -> Int? {
        value(of: name, in: document) { token, bytes in
            guard case .number(let range) = token else { return nil }
            return Int(String(decoding: UnsafeRawBufferPointer(rebasing: bytes[range]), as: UTF8.self))
        }
    }

    private static func value<Value>(
        of name: StaticString, in document: Secret, read: (JSONReader.Token, UnsafeRawBufferPointer) -> Value?
    ) -> Value? {
        document.withBytes { bytes in
            var reader = JSONReader(bytes)
            do throws(JSONError) {
                guard try reader.next() == .objectStart else { return nil }
                while case .name(let text) = try reader.next() {
                    guard JSONText.matches(text, of: bytes, name) else {
                        try reader.skipValue()
                        continue
                    }
                    return read(try reader.next(), bytes)
                }
                return nil
            } catch {
                return nil
            }
        }
    }
}
