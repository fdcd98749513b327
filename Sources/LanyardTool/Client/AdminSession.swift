import ArgumentParser
import Glibc
import Lanyard
import LanyardClient
import LanyardConfiguration
import LanyardFoundations
import LanyardSettings

/// The admin API as commands use it: an error is printed, with what to do next, and ends the command.
///
/// Exit codes: 1 the response is a problem, 77 if that is a refused credential, 69 no Lanyard responds.
struct AdminSession {
    let client: AdminClient
    /// Names of the identities with logins, if the command knows the configuration.
    private let identities: [String]
    /// What to do if no Lanyard responds.
    private let startRemedy: String

    init(_ client: AdminClient, identities: [String], startRemedy: String) {
        self.client = client
        self.identities = identities
        self.startRemedy = startRemedy
    }

    static let startRemedy =
        "start it with lanyard run, or name its admin address with --admin or --config; if it runs without an admin API, "
        + "its log has admin.unavailable, or its configuration admin: off"

    // MARK: Calls

    /// One call. An error is printed.
    func call(_ method: String, _ path: String, body: Secret? = nil) throws -> HTTPResponse {
        do throws(AdminCallError) {
            return try client.call(method, path, body: body)
        } catch {
            throw report(error)
        }
    }

    /// One call whose response is shown: as it is with `--json`, else as `text` says.
    func show(
        _ method: String, _ path: String, body: Secret? = nil, as output: OutputOptions,
        text: (JSONValue) throws -> OperatorText
    ) throws {
        let response = try call(method, path, body: body)
        guard output.json else { return Report.output(try text(json(of: response))) }
        if response.body.count > 0 { try show(response) }
    }

    /// Prints a response as it is.
    func show(_ response: HTTPResponse) throws {
        guard Report.output(json: response.body) else { throw report(.notAdminAPI(status: response.status)) }
    }

    /// The body of a response as a tree; `null` for a response without a body.
    func json(of response: HTTPResponse) throws -> JSONValue {
        if response.body.count == 0 { return .null }
        guard let value = JSONValue.read(response.body) else {
            throw report(.notAdminAPI(status: response.status))
        }
        return value
    }

    /// All users.
    func users() throws -> [UserReport] { UserReport.list(try json(of: call("GET", "/v1/users"))) }

    // MARK: Names

    /// The name of the user that a command is for: the given one, else the active user.
    func user(_ given: String?) throws -> String {
        if let given { return try Self.checked(given) }
        let value = try json(of: call("GET", "/v1/status"))
        guard let status = StatusReport(value) else { throw report(.notAdminAPI(status: 200)) }
        guard let active = status.activeUser else {
            let names = status.users.map(\.name).joined(separator: ", ")
            throw CommandFailure.usage(
                "no user is active", names.isEmpty ? "log one in: lanyard login NAME" : "name one of \(names)")
        }
        return try known(active)
    }

    /// A name that the admin API gives, before it becomes part of a path.
    func known(_ name: String) throws -> String {
        guard ConfiguredName.isValid(name) else { throw report(.notAdminAPI(status: 200)) }
        return name
    }

    /// The path of a user.
    static func path(_ user: String) -> String { "/v1/users/\(user)" }

    /// A name that a command line gives, before it becomes part of a path.
    static func checked(_ name: String) throws -> String {
        guard ConfiguredName.isValid(name) else {
            throw CommandFailure.usage(
                "\(ConfigurationText.quoted(name)) is not a name", "write letters, digits, '.', '_' and '-', 64 at most"
            )
        }
        return name
    }

    /// The identity of a call: the given one, else the only one of the configuration.
    func identity(_ given: String?) throws -> String {
        if let given { return try Self.checked(given) }
        if identities.count == 1 { return identities[0] }
        throw CommandFailure.usage(
            "the identity is missing",
            identities.isEmpty
                ? "give --identity; lanyard users lists those of the users, and --config names the only one by itself"
                : "give --identity with one of \(identities.joined(separator: ", "))")
    }

    // MARK: Errors

    /// Prints an error and what to do next.
    func report(_ error: AdminCallError) -> ExitCode {
        switch error {
        case .noResponse(let error): return report(error)
        case .problem(let problem): return report(problem)
        case .notAdminAPI(let status):
            return CommandFailure.failed(foreign(status), Self.foreignRemedy, exitCode: 69)
        }
    }

    private func foreign(_ status: Int) -> String {
        "what responds at \(client.address) is no admin API of Lanyard (status \(status))"
    }

    private static let foreignRemedy = "give --admin the address that admin.address of the running Lanyard names"

    private func report(_ error: HTTPClientError) -> ExitCode {
        let remedy =
            switch error {
            case .notConnected(EACCES), .notConnected(EPERM):
                "run the command as root or as the Unix user that Lanyard runs as"
            case .notHTTP, .tooLarge: Self.foreignRemedy
            case _ where error.mayHaveArrived: "look at what has come of it: lanyard status"
            default: startRemedy
            }
        let subject =
            switch error {
            case .notConnected(EACCES), .notConnected(EPERM): "cannot connect to"
            case _ where error.mayHaveArrived: "no whole response from"
            default: "no Lanyard responds at"
            }
        return CommandFailure.failed("\(subject) \(client.address): \(error.message)", remedy, exitCode: 69)
    }

    private func report(_ problem: ReceivedProblem) -> ExitCode {
        if CommandFailure.printsProblems, problem.body.map(Report.output(json:)) != true {
            Report.output(JSONLayout.text(problem.document))
        }
        if ["no-route", "method-not-allowed"].contains(problem.name) { return reportUnknownCall() }
        let detail = problem.detail.hasSuffix(".") ? String(problem.detail.dropLast()) : problem.detail
        let message = detail.isEmpty ? problem.title : "\(problem.title): \(detail)"
        let code = problem.errorCode.flatMap { problem.detailHas($0) ? nil : " (\($0))" } ?? ""
        // The detail of most problems has the service's words.
        let isSaid = problem.serviceError.map(problem.detailHas) ?? true
        let service = isSaid ? code : "; the identity service: \(problem.serviceError ?? "")\(code)"
        return CommandFailure.explained(message + service, problem.remedy, exitCode: problem.exitCode)
    }

    /// The running Lanyard does not have the call: it is of another version, or another program.
    private func reportUnknownCall() -> ExitCode {
        do throws(AdminCallError) {
            let version = try client.status().version
            return CommandFailure.explained(
                "the running Lanyard (version \(version)) does not know this call; "
                    + "this command is of version \(BuildVersion.number)",
                "restart Lanyard with the version of this command", exitCode: 1)
        } catch {
            return CommandFailure.explained(foreign(404), Self.foreignRemedy, exitCode: 69)
        }
    }
}
