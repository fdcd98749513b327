/// Apps, their providers, rate limits, faults and delays.
extension ControlAPI {
    func apps(_ call: Call) async throws(ControlError) -> EmulatorResponse? {
        switch call.name {
        case "GET /apps": return .json(200, await state.appsJSON())
        case "POST /apps":
            let settings: AppSettings
            do throws(SeedReader.ReadError) {
                // JSON is YAML. A call may not name files.
                let node = try ConfigurationNode.read(Array(call.body.text.utf8))
                settings = try AppReader.app(node, SeedFiles(folder: nil))
            } catch {
                throw ControlError(text: error.description)
            }
            let isNew = await state.put(settings)
            return .json(isNew ? 201 : 200, .members(["app_id": .string(settings.appID)]))
        case "POST /providers/enable", "POST /providers/disable":
            let name = try text("provider", call)
            guard let provider = Provider(rawValue: name) else {
                let known = Provider.allCases.map(\.rawValue).joined(separator: ", ")
                throw ControlError(text: "provider is one of \(known)")
            }
            await state.setEnabled(call.name.hasSuffix("enable"), provider, try await app(call) ?? 0)
            return EmulatorResponse(204)
        default: return nil
        }
    }

    func faults(_ call: Call) async throws(ControlError) -> EmulatorResponse? {
        switch call.name {
        case "GET /faults": return .json(200, await state.plannedFaults())
        case "POST /faults":
            guard let fault = await PlannedFault(call.body, appID: state.options.appID) else {
                throw ControlError(
                    text: "route is * or one of \(Self.routeNames); fault is one of "
                        + PlannedFault.Kind.allCases.map(\.rawValue).joined(separator: ", ")
                        + "; times is a whole number from 1")
            }
            await state.plan(fault)
        case "DELETE /faults": await state.clearFaults(call.body["route"]?.string.flatMap(Route.init(rawValue:)))
        case "GET /delays": return .json(200, await state.plannedDelays())
        case "POST /delays":
            guard let route = Self.route(call), let time = call.body["milliseconds"]?.double else {
                throw ControlError(
                    text: "route is one of \(Self.routeNames); milliseconds is a number; before is true or false")
            }
            await state.setDelay(time / 1000, route, beforeEffect: call.body["before"]?.bool ?? false)
        case "DELETE /delays": await state.clearDelays()
        case "GET /rate-limits": return .json(200, await state.rateLimitsJSON())
        case "POST /rate-limits":
            guard let route = Self.route(call), let calls = call.body["calls"]?.int, calls >= 0,
                let seconds = call.body["seconds"]?.double, seconds > 0
            else {
                throw ControlError(text: "route is one of \(Self.routeNames); calls and seconds are numbers")
            }
            await state.setRateLimit(RateLimit(calls: calls, seconds: seconds), route)
        case "DELETE /rate-limits": await state.clearRateLimits(Self.route(call))
        default: return nil
        }
        return EmulatorResponse(204)
    }

    private static func route(_ call: Call) -> Route? { call.body["route"]?.string.flatMap(Route.init(rawValue:)) }

    private static let routeNames = Route.allCases.map(\.rawValue).joined(separator: ", ")
}
