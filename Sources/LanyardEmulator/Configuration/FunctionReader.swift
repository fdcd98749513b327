/// Reads functions of a configuration (emulator.md 3.3).
enum FunctionReader {
    typealias ReadError = SeedReader.ReadError

    private static let conditions = ["arguments", "argument", "equals", "contains", "has", "user", "times"]
    private static let outcomes = ["result", "result_path", "error", "events"]
    private static let additions = ["error_code", "status", "hold_seconds", "set_custom_data"]

    static func functions(_ node: ConfigurationNode) throws(ReadError) -> [String: FunctionDefinition] {
        var functions: [String: FunctionDefinition] = [:]
        for (name, value) in try node.members() { functions[name] = try function(value) }
        return functions
    }

    private static func function(_ node: ConfigurationNode) throws(ReadError) -> FunctionDefinition {
        var isPrivate = false
        var rest: [(key: String, value: ConfigurationNode)] = []
        for (key, value) in try node.members() {
            if key == "private" { isPrivate = try value.flag(key) } else { rest.append((key, value)) }
        }
        guard let kind = rest.first(where: { $0.key == "builtin" || $0.key == "cases" }) else {
            let single = try functionCase(.map(rest.map(ConfigurationNode.Member.init), line: node.line))
            return FunctionDefinition(body: .table([single]), isPrivate: isPrivate)
        }
        guard rest.count == 1 else {
            throw .init(line: node.line, "beside \(kind.key) only private may stand")
        }
        if kind.key == "builtin" {
            let name = try kind.value.text("builtin")
            guard let builtin = BuiltinFunction(rawValue: name) else {
                let known = BuiltinFunction.allCases.map(\.rawValue).joined(separator: ", ")
                throw .init(line: kind.value.line, "no built-in function \(name); there are \(known)")
            }
            return FunctionDefinition(body: .builtin(builtin), isPrivate: isPrivate)
        }
        var cases: [FunctionCase] = []
        for element in try kind.value.elements() { cases.append(try functionCase(element)) }
        return FunctionDefinition(body: .table(cases), isPrivate: isPrivate)
    }

    private static func functionCase(_ node: ConfigurationNode) throws(ReadError) -> FunctionCase {
        var functionCase = FunctionCase()
        let members = try node.members(conditions + outcomes + additions)
        let given = members.filter { outcomes.contains($0.key) }
        guard given.count <= 1 else {
            throw .init(line: node.line, "one of \(given.map(\.key).joined(separator: ", ")) is too many")
        }
        guard given.count == 1 || members.contains(where: { $0.key == "set_custom_data" }) else {
            throw .init(line: node.line, "one of \(outcomes.joined(separator: ", ")) is missing")
        }
        for (key, value) in members {
            if conditions.contains(key) {
                try readCondition(key, value, into: &functionCase)
            } else if outcomes.contains(key) {
                functionCase.outcome = try outcome(key, value, members)
            } else if key == "set_custom_data" {
                functionCase.customData = try value.object(key)
            }
        }
        return functionCase
    }

    private static func readCondition(
        _ key: String, _ value: ConfigurationNode, into functionCase: inout FunctionCase
    ) throws(ReadError) {
        switch key {
        case "arguments": functionCase.arguments = try value.elements().map { ExtendedJSON.comparable($0.json) }
        case "argument": functionCase.examined = try value.count(key, least: 1) - 1
        case "equals":
            functionCase.equals = try value.members().map { ($0.key, ExtendedJSON.comparable($0.value.json)) }
        case "contains":
            for (path, text) in try value.members() { functionCase.contains.append((path, try text.text(path))) }
        case "has": functionCase.has = try value.text(key)
        case "user": functionCase.user = try value.text(key)
        default: functionCase.timesMax = try value.count(key, least: 1)
        }
    }

    private static func outcome(
        _ key: String, _ value: ConfigurationNode, _ members: [(key: String, value: ConfigurationNode)]
    ) throws(ReadError) -> FunctionCase.Outcome {
        switch key {
        case "result": return .result(value.json)
        case "result_path": return .path(try value.text(key))
        case "error":
            var failure = FunctionError(text: try value.text(key))
            for (key, value) in members {
                if key == "error_code" { failure.code = try value.text(key) }
                if key == "status" { failure.status = try value.count(key, least: 400) }
            }
            guard failure.status < 600 else { throw .init(line: value.line, "status is 400 to 599") }
            return .failure(failure)
        default:
            var holdSeconds = 0.0
            for (key, value) in members where key == "hold_seconds" { holdSeconds = try value.seconds(key) }
            return .events(try value.elements().map(\.json), holdSeconds: holdSeconds)
        }
    }
}
