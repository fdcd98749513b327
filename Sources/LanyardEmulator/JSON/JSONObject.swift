/// The members of a JSON object in the order in which they came. Of two members with one name the later one counts. Two objects with the
/// same members in another order are equal.
struct JSONObject: Equatable, Sendable, ExpressibleByDictionaryLiteral {
    private(set) var keys: [String] = []
    private var values: [String: JSONValue] = [:]

    init() {}

    init(dictionaryLiteral elements: (String, JSONValue)...) {
        for (key, value) in elements { self[key] = value }
    }

    /// Pairs whose value is nil are left out.
    init(_ members: some Sequence<(String, JSONValue?)>) {
        for (key, value) in members { self[key] = value }
    }

    subscript(key: String) -> JSONValue? {
        get { values[key] }
        set {
            let old = values.updateValue(newValue ?? .null, forKey: key)
            if newValue == nil {
                values[key] = nil
                if old != nil { keys.removeAll { $0 == key } }
            } else if old == nil {
                keys.append(key)
            }
        }
    }

    var count: Int { keys.count }
    var isEmpty: Bool { keys.isEmpty }

    /// The members in their order.
    var members: [(key: String, value: JSONValue)] { keys.map { ($0, values[$0] ?? .null) } }

    func mapValues(_ change: (JSONValue) -> JSONValue) -> JSONObject {
        var object = self
        object.values = values.mapValues(change)
        return object
    }

    /// These members and those of `other`, which replace members of the same name.
    func merging(_ other: JSONObject) -> JSONObject {
        var object = self
        for (key, value) in other.members { object[key] = value }
        return object
    }

    static func == (first: JSONObject, second: JSONObject) -> Bool { first.values == second.values }
}
