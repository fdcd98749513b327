import Foundation

/// MongoDB Extended JSON v2: types that JSON lacks are objects such as `{"$numberLong":"15"}`.
enum ExtendedJSON {
    /// Objects with one of these names are one value and are kept as they are.
    private static let kept: Set<String> = [
        "$numberInt", "$numberLong", "$numberDouble", "$numberDecimal", "$oid", "$symbol", "$binary",
        "$regularExpression", "$timestamp", "$dbPointer", "$minKey", "$maxKey", "$undefined", "$code",
    ]

    /// The canonical form of a value in either form.
    static func canonical(_ value: JSONValue) -> JSONValue {
        switch value {
        case .number(let digits): return canonical(number: digits)
        case .array(let elements): return .array(elements.map(canonical))
        case .object(let object):
            guard object.count == 1, let (name, inner) = object.members.first else { break }
            if kept.contains(name) { return value }
            if name == "$date" { return date(inner) ?? value }
            if name == "$uuid" { return uuid(inner) ?? value }
        case .null, .boolean, .string: return value
        }
        return .object(value.object?.mapValues(canonical) ?? JSONObject())
    }

    /// A form in which two values are equal if a function takes them for the same: numbers by their value, not by their type.
    static func comparable(_ value: JSONValue) -> JSONValue {
        if let number = number(value) {
            return .number(Int(exactly: number).map { String($0) } ?? "\(number)")
        }
        switch value {
        case .array(let elements): return .array(elements.map(comparable))
        case .object(let object):
            let canonical = canonical(value)
            return canonical == value ? .object(object.mapValues(comparable)) : comparable(canonical)
        case .null, .boolean, .string, .number: return value
        }
    }

    /// The value of a number in either form; nil: it is none, or its digits are none.
    static func number(_ value: JSONValue) -> Double? {
        if let plain = value.double { return plain }
        guard let object = value.object, object.count == 1, let (name, inner) = object.members.first,
            ["$numberInt", "$numberLong", "$numberDouble", "$numberDecimal"].contains(name)
        else { return nil }
        return inner.string.flatMap(Double.init)
    }

    /// The value of a whole number in either form that is not a double.
    static func integer(_ value: JSONValue) -> Int? {
        if case .number(let digits) = value { return Int(digits) }
        guard let object = value.object, object.count == 1 else { return nil }
        return (object["$numberInt"] ?? object["$numberLong"])?.string.flatMap { Int($0) }
    }

    static func long(_ value: Int) -> JSONValue { .members(["$numberLong": .string(String(value))]) }
    static func double(_ value: Double) -> JSONValue {
        let text = value.isInfinite ? (value < 0 ? "-Infinity" : "Infinity") : "\(value)"
        return .members(["$numberDouble": .string(text)])
    }

    private static func canonical(number digits: String) -> JSONValue {
        if let whole = Int(digits) {
            return Int32(exactly: whole) == nil ? long(whole) : .members(["$numberInt": .string(digits)])
        }
        return double(Double(digits) ?? 0)
    }

    /// `{"$date": "2026-01-31T08:00:00Z"}` is the relaxed form.
    private static func date(_ inner: JSONValue) -> JSONValue? {
        guard let text = inner.string else { return nil }
        let formatter = ISO8601DateFormatter()
        formatter.formatOptions =
            text.contains(".") ? [.withInternetDateTime, .withFractionalSeconds] : [.withInternetDateTime]
        guard let date = formatter.date(from: text) else { return nil }
        return .members(["$date": long(Int((date.timeIntervalSince1970 * 1000).rounded()))])
    }

    private static func uuid(_ inner: JSONValue) -> JSONValue? {
        guard let id = inner.string.flatMap({ UUID(uuidString: $0) }) else { return nil }
        let bytes = withUnsafeBytes(of: id.uuid) { Data($0) }
        return .members([
            "$binary": .members(["base64": .string(bytes.base64EncodedString()), "subType": "04"])
        ])
    }
}
