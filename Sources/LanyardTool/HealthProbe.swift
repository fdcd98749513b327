import LanyardClient
import LanyardConfiguration
import LanyardFoundations
import LanyardSettings

/// One look at a health page: whether all is well, else what is wrong and what to do.
struct HealthProbe {
    let isGood: Bool
    /// Lines for standard error; empty if all is well.
    let messages: [String]

    /// - Parameter limit: for the whole probe.
    init(_ address: ListenerSettings.Address, _ path: String, within limit: Duration) {
        var limits = HTTPClient.Limits.health
        limits.responseTimeout = limit
        do throws(HTTPClientError) {
            let response = try HTTPClient(address, limits: limits).perform(HTTPClient.Request("GET", path))
            isGood = response.status == 200
            messages = isGood ? [] : ["\(path) of \(address): \(response.status)"] + Self.faults(response.body)
        } catch {
            isGood = false
            messages = ["\(path) of \(address): \(error.message)"] + Self.remedy(error)
        }
    }

    private static func remedy(_ error: HTTPClientError) -> [String] {
        switch error {
        case .notConnected, .notConnectable:
            ["what to do: start it with lanyard run, or name its health listener with --health or --config"]
        case .connectTimedOut, .timedOut: ["what to do: the process hangs or the machine is overloaded; see its log"]
        default: ["what to do: name the health listener with --health or --config; something else may answer there"]
        }
    }

    /// The failing checks with what to do; the whole body if it is no health page.
    private static func faults(_ body: Secret) -> [String] {
        guard let checks = JSONValue.read(body)?["checks"]?.elements, !checks.isEmpty else {
            return body.count > 0 ? [body.withBytes { shown(String(decoding: $0, as: UTF8.self)) }] : []
        }
        return checks.filter { $0["ok"]?.bool == false }.flatMap { check in
            let name = check["name"]?.string ?? "-"
            let reason = check["reason"]?.string ?? "-"
            let fault = shown("failing: \(name): \(reason)")
            return [fault] + (remedy(reason, of: name).map { ["what to do: \($0)"] } ?? [])
        }
    }

    private static func shown(_ text: String) -> String { ConfigurationText.line(text) }

    /// By the reasons of docs/operating.md.
    private static func remedy(_ reason: String, of check: String) -> String? {
        let user = check.hasPrefix("session:") ? shown(String(check.dropFirst("session:".count))) : "NAME"
        return switch reason {
        case "login_required", "logged_out", "outcome_unknown": "lanyard login \(user)"
        case "credential_refused": "correct the credential of \(user); its file is read again by itself"
        case "no_active_user": "lanyard use NAME, or lanyard login NAME"
        case "identity_unreachable", "identity_gone", "logging_in": "lanyard status says why the last call failed"
        case "account_in_use": "lanyard users shows which user has the account"
        case "store_failing": "make room, or mend the folder of store.path; the log says why"
        default: nil
        }
    }
}
