import Foundation

/// Running functions.
extension ServiceState {
    /// A call of a function by a client.
    struct FunctionCall {
        let name: String
        let service: String?
        let arguments: [JSONValue]

        /// Reads `{"name", "arguments"?, "service"?}`.
        init(_ body: JSONValue) throws(ServiceError) {
            guard let name = body["name"]?.string else { throw .missing("name") }
            switch body["arguments"] {
            case nil, .null?: arguments = []
            case .array(let elements)?: arguments = elements
            default: throw .invalid("arguments", "an array")
            }
            self.name = name
            service = body["service"]?.string.flatMap { $0.isEmpty ? nil : $0 }
        }

        /// Reads the query of a stream: base64 of the same JSON.
        init(base64: String) throws(ServiceError) {
            guard let bytes = TokenIssuer.decode(base64[...]), let body = try? JSONReader.read(bytes) else {
                throw .invalid("baas_request", "base64 of a JSON object")
            }
            try self.init(body)
        }
    }

    /// `POST …/functions/call`.
    func call(
        _ body: JSONValue, _ authorization: String?, _ app: Int
    ) throws(ServiceError) -> (outcome: FunctionOutcome, IssuedToken) {
        let token = try access(authorization, app)
        return (try perform(try FunctionCall(body), token, app), token)
    }

    /// `GET …/functions/call`, with the call in base64. The service refuses the streams of ended sessions with 403.
    func watch(
        _ base64: String, _ authorization: String?, _ app: Int
    ) throws(ServiceError) -> (outcome: FunctionOutcome, IssuedToken) {
        let token = try access(authorization, app)
        guard isLive(token.sessionID) else { throw .watchRefused }
        return (try perform(try FunctionCall(base64: base64), token, app), token)
    }

    private func perform(
        _ call: FunctionCall, _ token: IssuedToken, _ app: Int
    ) throws(ServiceError) -> FunctionOutcome {
        guard let user = user(token.userID) else { throw .refreshUnknown }
        guard try definition(call.name, call.service, app).isPrivate == false else { throw .notCallable(call.name) }
        return try run(call.name, service: call.service, call.arguments, caller: user.id, app)
    }

    private func definition(
        _ name: String, _ service: String?, _ app: Int
    ) throws(ServiceError) -> FunctionDefinition {
        let settings = apps[app].settings
        guard let service else {
            guard let function = settings.functions[name] else { throw .functionNotFound }
            return function
        }
        guard let functions = settings.services[service] else { throw .serviceNotFound(service) }
        guard let function = functions[name] else { throw .commandNotFound(name) }
        return function
    }

    /// Runs a function and records it.
    ///
    /// - Parameter caller: a user id; nil: the service itself calls.
    func run(
        _ name: String, service: String?, _ arguments: [JSONValue], caller: String?, _ app: Int
    ) throws(ServiceError) -> FunctionOutcome {
        let definition = try definition(name, service, app)
        let result =
            switch definition.body {
            case .builtin(let function): runBuiltin(function, arguments, caller, app)
            case .table(let cases): runTable(cases, name, service, arguments, caller, app)
            }
        functionRuns.record(
            appID: apps[app].settings.appID, name: name, service: service, userID: caller, arguments, result)
        switch result {
        case .success(let outcome): return outcome
        case .failure(let failure): throw .function(failure)
        }
    }

    private func runBuiltin(
        _ function: BuiltinFunction, _ arguments: [JSONValue], _ caller: String?, _ app: Int
    ) -> Result<FunctionOutcome, FunctionError> {
        let user = caller.flatMap { self.user($0) }
        var customData = user?.customData ?? JSONObject()
        let result = function.run(
            arguments, caller: user.map { self.json(of: $0, app) } ?? .null, customData: &customData)
        if let user, customData != user.customData { updateUser(user.id) { $0.customData = customData } }
        return result
    }

    /// A user as `whoami` returns it.
    private func json(of user: User, _ app: Int) -> JSONValue {
        let appID = apps[app].settings.appID
        return .members([
            "id": .string(user.id), "type": .string(user.type), "data": .object(user.profileData),
            "identities": .array(user.identities.map { $0.json(appID: appID) }),
            "custom_data": .object(user.customData),
        ])
    }

    private func runTable(
        _ cases: [FunctionCase], _ name: String, _ service: String?, _ arguments: [JSONValue], _ caller: String?,
        _ app: Int
    ) -> Result<FunctionOutcome, FunctionError> {
        let callers = caller.map { [$0] + (self.name(of: $0).map { [$0] } ?? []) } ?? []
        let subject = arguments.first?["username"]?.string ?? caller ?? ""
        for (index, functionCase) in cases.enumerated() where functionCase.fits(arguments, callers: callers) {
            if let most = functionCase.timesMax {
                let key = "\(service ?? "")/\(name)/\(index)/\(subject)"
                let count = apps[app].accounts.caseCounts[key, default: 0]
                guard count < most else { continue }
                apps[app].accounts.caseCounts[key] = count + 1
            }
            if let caller, !functionCase.customData.isEmpty {
                updateUser(caller) { $0.customData = $0.customData.merging(functionCase.customData) }
            }
            switch functionCase.outcome {
            case .result(let value): return .success(.value(value))
            case .path(let path): return .success(.value(functionCase.value(at: path, of: arguments) ?? .null))
            case .failure(let failure): return .failure(failure)
            case .events(let events, let holdSeconds): return .success(.events(events, holdSeconds: holdSeconds))
            }
        }
        return .failure(.init(text: "no case of function '\(name)' fits its arguments"))
    }
}
