/// A function of an app: one of the emulator's own, or a table.
struct FunctionDefinition: Sendable {
    enum Body: Sendable {
        case builtin(BuiltinFunction)
        /// The first case that fits decides.
        case table([FunctionCase])
    }

    var body: Body
    /// Clients cannot call it. The service itself can: for a login, a confirmation or a reset.
    var isPrivate = false
}

/// One row of a function's table. All its conditions must hold.
struct FunctionCase: Sendable {
    enum Outcome: Sendable {
        case result(JSONValue)
        /// The value at a path of the examined argument is the result. Without such a value the case does not fit.
        case path(String)
        case failure(FunctionError)
        /// Messages of a stream, which then stays open.
        case events([JSONValue], holdSeconds: Double)
    }

    /// The arguments in comparable form (`ExtendedJSON`).
    var arguments: [JSONValue]?
    /// Which argument the conditions below and `path` examine, from 0.
    var examined = 0
    /// Values at paths of the examined argument, in comparable form.
    var equals: [(path: String, value: JSONValue)] = []
    /// Parts of texts at paths of the examined argument.
    var contains: [(path: String, text: String)] = []
    /// A path that the examined argument has.
    var has: String?
    /// The caller's email or user id.
    var user: String?
    /// The case fits so often for one subject, and then no more.
    var timesMax: Int?
    var outcome = Outcome.result(.null)
    /// Written into the caller's custom data.
    var customData = JSONObject()

    /// Whether the conditions hold. How often the case has fitted before is not looked at.
    ///
    /// - Parameter callers: the names by which the configuration may know the caller.
    func fits(_ given: [JSONValue], callers: [String]) -> Bool {
        if let arguments, arguments != given.map(ExtendedJSON.comparable) { return false }
        if let has, value(at: has, of: given) == nil { return false }
        if let user, !callers.contains(user) { return false }
        if case .path(let path) = outcome, value(at: path, of: given) == nil { return false }
        return equals.allSatisfy { value(at: $0.path, of: given).map(ExtendedJSON.comparable) == $0.value }
            && contains.allSatisfy { value(at: $0.path, of: given)?.string?.contains($0.text) == true }
    }

    /// The value at a path of the examined argument. A dot alone is the whole argument.
    func value(at path: String, of given: [JSONValue]) -> JSONValue? {
        guard given.indices.contains(examined) else { return nil }
        return path == "." ? given[examined] : given[examined].value(at: path)
    }
}

/// How a function fails. A type of its own, because a login, a confirmation and a reset have their own responses to it.
struct FunctionError: Error, Equatable, Sendable {
    var text: String
    var code = "FunctionExecutionError"
    var status = 400
}
