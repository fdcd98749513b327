/// The functions that the emulator brings along.
enum BuiltinFunction: String, CaseIterable, Sendable {
    case sum, echo, arguments, whoami, updateUserData, customData, fail, wait

    /// The functions of an app that configures none.
    static let definitions = Dictionary(
        uniqueKeysWithValues: allCases.map { ($0.rawValue, FunctionDefinition(body: .builtin($0))) })

    /// The longest `wait`, in milliseconds.
    static let waitMax = 30_000

    /// What a function does. The custom data is the caller's, and may change.
    func run(_ arguments: [JSONValue], caller: JSONValue, customData: inout JSONObject) -> Result<
        FunctionOutcome, FunctionError
    > {
        let first = arguments.first ?? .null
        switch self {
        case .sum: return Self.total(of: arguments).map { .value($0) }
        case .echo: return .success(.value(first))
        case .arguments: return .success(.value(.array(arguments)))
        case .whoami: return .success(.value(caller))
        case .updateUserData:
            guard let update = first.object else { return .failure(.init(text: "the first argument is no document")) }
            customData = customData.merging(update)
            return .success(.value(true))
        case .customData: return .success(.value(.object(customData)))
        case .fail: return .failure(.init(text: first.string ?? "failed"))
        case .wait:
            guard let milliseconds = ExtendedJSON.integer(first), (0...Self.waitMax).contains(milliseconds) else {
                return .failure(.init(text: "the first argument is a number of milliseconds up to \(Self.waitMax)"))
            }
            return .success(.wait(milliseconds: milliseconds))
        }
    }

    /// A `$numberLong` if all arguments are whole, as in the service for the SDKs' integers.
    private static func total(of arguments: [JSONValue]) -> Result<JSONValue, FunctionError> {
        var whole: Int? = 0
        var total = 0.0
        for argument in arguments {
            guard let number = ExtendedJSON.number(argument) else {
                return .failure(.init(text: "argument \(argument.text) is no number"))
            }
            total += number
            whole = whole.flatMap { sum in
                ExtendedJSON.integer(argument).flatMap { addend in
                    let (value, overflow) = sum.addingReportingOverflow(addend)
                    return overflow ? nil : value
                }
            }
        }
        return .success(whole.map { ExtendedJSON.long($0) } ?? ExtendedJSON.double(total))
    }
}

/// What a function has come to.
enum FunctionOutcome: Sendable {
    case value(JSONValue)
    /// null after a while.
    case wait(milliseconds: Int)
    case events([JSONValue], holdSeconds: Double)
}
