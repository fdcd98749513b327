import LanyardClient
import LanyardFoundations
import LanyardSettings

/// One look at a health page: whether all is well, else what is wrong and what to do.
struct HealthProbe {
    /// One check of the page.
    struct Check {
        /// `session:alice`.
        let name: String
        let isPassing: Bool
        let reason: String

        /// Worth a line: it fails, or a refresh does.
        var isNoteworthy: Bool { !isPassing || reason == "refresh_failing" }

        var remedy: String {
            let user = name.hasPrefix("session:") ? String(name.dropFirst("session:".count)) : "NAME"
            return ReadinessRemedy.text(reason, user: user) ?? ReadinessRemedy.unknown
        }
    }

    let isGood: Bool
    /// What may be wrong although `isGood`: checks that inform. Empty if all is well.
    let warnings: OperatorText
    /// Unless `isGood`: which page, and its status or why there is no response.
    private let fault: String
    /// Unless `isGood`: what fails, and what to do.
    private let details: OperatorText
    /// What is missing, in a few words: `session:alice: logging_in`.
    let summary: String
    private let address: ListenerSettings.Address
    private let path: String
    /// nil: there is no response.
    private let status: Int?
    /// nil: there is a response.
    private let error: String?
    private let checks: [Check]

    /// - Parameter limit: for the whole probe.
    init(_ address: ListenerSettings.Address, _ path: String, within limit: Duration) {
        var limits = HTTPClient.Limits.health
        limits.responseTimeout = limit
        (self.address, self.path) = (address, path)
        do throws(HTTPClientError) {
            let response = try HTTPClient(address, limits: limits).perform(HTTPClient.Request("GET", path))
            let checks = Self.checks(response.body)
            isGood = response.status == 200
            (status, error, self.checks) = (response.status, nil, checks)
            warnings = OperatorText(isGood ? Self.lines(checks, "warning") : [])
            fault = "\(path) of \(address): \(response.status)"
            details = OperatorText(isGood ? [] : Self.faults(response.body, checks))
            let missing = checks.filter { !$0.isPassing }.map { "\($0.name): \($0.reason)" }
            summary = missing.isEmpty ? "\(path) responds with \(response.status)" : missing.joined(separator: ", ")
        } catch {
            isGood = false
            (status, self.error, checks) = (nil, error.message, [])
            warnings = OperatorText([])
            fault = "\(path) of \(address): \(error.message)"
            details = OperatorText(Self.remedy(error))
            summary = error.message
        }
    }

    /// The error of a command that has found this, and what to do.
    ///
    /// - Parameter missed: what the command wanted, if that is more than one look at the page.
    func failure(_ missed: String? = nil) -> OperatorText {
        let subject = missed.map { "\($0): " } ?? ""
        return OperatorText([OperatorText(line: "error: \(subject)\(fault)"), details])
    }

    /// As members of an object.
    func write(into document: inout JSONWriter) {
        document.member("ok", isGood)
        document.member("address", "\(address)")
        document.member("path", path)
        document.member("status", status)
        document.member("error", error)
        document.key("checks")
        document.beginArray()
        for check in checks {
            document.beginObject()
            document.member("name", check.name)
            document.member("ok", check.isPassing)
            document.member("reason", check.reason)
            document.member("what_to_do", check.isNoteworthy ? check.remedy : nil)
            document.endObject()
        }
        document.endArray()
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
    private static func faults(_ body: Secret, _ checks: [Check]) -> [OperatorText] {
        guard checks.isEmpty else { return lines(checks, "failing") }
        let text =
            body.count > 0 ? [body.withBytes { OperatorText(line: String(decoding: $0, as: UTF8.self)) }] : []
        return text + [otherServerRemedy]
    }

    private static func lines(_ checks: [Check], _ word: String) -> [OperatorText] {
        checks.filter(\.isNoteworthy).flatMap { check in
            ["\(word): \(check.name): \(check.reason)", "what to do: \(check.remedy)"] as [OperatorText]
        }
    }

    private static func checks(_ body: Secret) -> [Check] {
        (JSONValue.read(body)?["checks"]?.elements ?? []).map { check in
            Check(
                name: check["name"]?.string ?? "-", isPassing: check["ok"]?.bool != false,
                reason: check["reason"]?.string ?? "-")
        }
    }
}
