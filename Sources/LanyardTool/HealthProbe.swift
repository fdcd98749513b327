import LanyardClient
import LanyardFoundations
import LanyardSettings

/// One look at a health page: whether all is well, else what is wrong and what to do.
struct HealthProbe {
    let isGood: Bool
    /// Lines for standard error; empty if all is well. A check that informs may fail although `isGood`.
    let messages: OperatorText

    /// - Parameter limit: for the whole probe.
    init(_ address: ListenerSettings.Address, _ path: String, within limit: Duration) {
        var limits = HTTPClient.Limits.health
        limits.responseTimeout = limit
        do throws(HTTPClientError) {
            let response = try HTTPClient(address, limits: limits).perform(HTTPClient.Request("GET", path))
            isGood = response.status == 200
            messages =
                isGood
                ? OperatorText(Self.failingChecks(response.body, "warning"))
                : OperatorText(["\(path) of \(address): \(response.status)"] + Self.faults(response.body))
        } catch {
            isGood = false
            messages = OperatorText(["\(path) of \(address): \(error.message)"] + Self.remedy(error))
        }
    }

    private static func remedy(_ error: HTTPClientError) -> [OperatorText] {
        switch error {
        case .notConnected, .notConnectable:
            ["what to do: start it with lanyard run, or name its health listener with --health or --config"]
        case .connectTimedOut, .timedOut: ["what to do: the process hangs or the machine is overloaded; see its log"]
        default: [otherServerRemedy]
        }
    }

    private static let otherServerRemedy: OperatorText =
        "what to do: name the health listener with --health or --config; something else may respond there"

    /// The failing checks with what to do; the whole body if it is no health page.
    private static func faults(_ body: Secret) -> [OperatorText] {
        guard JSONValue.read(body)?["checks"]?.elements.isEmpty == false else {
            let text =
                body.count > 0 ? [body.withBytes { OperatorText(line: String(decoding: $0, as: UTF8.self)) }] : []
            return text + [otherServerRemedy]
        }
        return failingChecks(body, "failing")
    }

    private static func failingChecks(_ body: Secret, _ word: String) -> [OperatorText] {
        let checks = JSONValue.read(body)?["checks"]?.elements ?? []
        return checks.filter { $0["ok"]?.bool == false || $0["reason"]?.string == "refresh_failing" }.flatMap { check in
            let name = check["name"]?.string ?? "-"
            let reason = check["reason"]?.string ?? "-"
            let user = name.hasPrefix("session:") ? String(name.dropFirst("session:".count)) : "NAME"
            let remedy = ReadinessRemedy.text(reason, user: user) ?? ReadinessRemedy.unknown
            return ["\(word): \(name): \(reason)", "what to do: \(remedy)"] as [OperatorText]
        }
    }
}
