/// The latest runs of functions, for `/emulator/functions`.
struct FunctionRunList: Sendable {
    /// Runs that are kept.
    static let runsMax = 1_000

    private var runs: [(number: Int, json: JSONValue)] = []
    private var count = 0

    mutating func record(
        appID: String, name: String, service: String?, userID: String?, _ arguments: [JSONValue],
        _ result: Result<FunctionOutcome, FunctionError>
    ) {
        count += 1
        var value = JSONValue.null, error: String?
        switch result {
        case .success(.value(let given)): value = given
        case .success(.events(let events, _)): value = .array(events)
        case .success(.wait): break
        case .failure(let failure): error = failure.text
        }
        let json = JSONValue.members([
            "number": .int(count), "app": .string(appID), "name": .string(name), "service": .orNull(service),
            "user_id": .orNull(userID), "arguments": .array(arguments.map(Self.masked)), "result": value,
            "error": .orNull(error),
        ])
        runs.append((count, json))
        // Removed in large steps, because each removal moves the rest.
        if runs.count > 2 * Self.runsMax { runs.removeFirst(runs.count - Self.runsMax) }
    }

    /// The runs after the one with this number, of one app or of all.
    func after(_ number: Int, appID: String?) -> JSONValue {
        .array(
            runs.suffix(Self.runsMax).filter { run in
                run.number > number && (appID == nil || run.json["app"]?.string == appID)
            }.map(\.json))
    }

    /// Without the password that a reset function gets.
    private static func masked(_ argument: JSONValue) -> JSONValue {
        guard case .object(var object) = argument, object["password"] != nil else { return argument }
        object["password"] = "***"
        return .object(object)
    }
}
