import ArgumentParser
import Glibc
import LanyardClient
import LanyardConfiguration
import LanyardFoundations
import LanyardSettings

/// The broker that a command asks in place of the admin API.
struct BrokerOptions: ParsableArguments {
    @Option(
        name: .customLong("broker"),
        help: ArgumentHelp("Ask this broker: unix:/PATH or http://HOST:PORT.", valueName: "address"))
    var address: String?

    @Option(
        help: ArgumentHelp(
            "The capability by which the broker knows the caller; - is standard input.", valueName: "path"),
        completion: .file())
    var capabilityFile: String?

    /// - Parameter takesPlain: `--unsafe-plain-http`.
    func client(takesPlain: Bool) throws -> AdminClient? {
        guard let address else { return nil }
        let place = try Self.place(address)
        if case .tcp(let host, _) = place, !takesPlain, AddressText.reach(host) != .loopback {
            throw CommandFailure.usage(
                "\(place) is no loopback address: the token would come from there in plain HTTP, and the network in between could read it",
                "run a Lanyard here whose identity is that broker, or forward a port of this machine to it (ssh -L) and give that to "
                    + "--broker; if you trust that network, give --unsafe-plain-http")
        }
        let capability = try capabilityFile.map { path in
            try CommandFailure.reported { () throws(InputError) in
                let capability = try SecretInput.read(path, as: .token, prompt: "Capability")
                // A line end would end the field in which it is sent.
                guard capability.isVisibleASCII else {
                    throw InputError(
                        .file, "\(path) is not one word of visible ASCII",
                        remedy: "name the file that capability_file of the broker's row for this caller names")
                }
                return capability
            }
        }
        return AdminClient(place, token: nil, capability: capability)
    }

    private static func place(_ text: String) throws -> ListenerSettings.Address {
        let remedy = "write unix:/PATH or http://HOST:PORT"
        let origin = URLOrigin(of: text)
        guard origin?.isTLS != true else {
            throw CommandFailure.usage(
                "--broker: this command has no TLS",
                "run a Lanyard here whose identity is that broker, and ask its own broker on a unix socket")
        }
        var bare = text[...]
        if let origin {
            guard ["", "/"].contains(origin.rest) else {
                throw CommandFailure.usage("--broker: \(ConfigurationText.quoted(text)) has a path", remedy)
            }
            bare = origin.authority[...]
        } else if !text.hasPrefix("unix:") {
            throw CommandFailure.usage("--broker: \(ConfigurationText.quoted(text)) is no address of a broker", remedy)
        }
        let place: ListenerSettings.Address
        do throws(ConfigurationValue.ValueError) {
            place = try AddressText.listenAddress(String(bare))
        } catch {
            throw CommandFailure.usage("--broker: \(error.message)", remedy)
        }
        if case .tcp(_, port: 0) = place { throw CommandFailure.usage("--broker: port 0 is no port", remedy) }
        return place
    }
}

/// Where `lanyard token` asks: a broker, or the admin API of a running Lanyard.
struct TokenSource {
    /// There is no token now. A type of its own: the error is printed already, and `--watch` tries again.
    struct PrintedError: Error {
        let exitCode: ExitCode
        /// Seconds.
        let retryAfter: Int?
    }

    private enum Place {
        case broker(AdminClient)
        case admin(AdminSession)
    }

    private let place: Place
    private let query: TokenQuery

    init(_ command: TokenCommand) throws {
        var query = TokenQuery()
        (query.user, query.audience) = (command.user, command.choice.audience)
        (query.resources, query.scopes) = (command.choice.resource, command.choice.scope)
        if let name = command.user { _ = try AdminSession.checked(name) }
        self.query = query
        if command.output.json { CommandFailure.printProblems() }
        if let client = try command.broker.client(takesPlain: command.admin.unsafePlainHttp) {
            place = .broker(client)
        } else {
            place = .admin(try command.admin.session(for: command.output))
        }
    }

    /// Asks once. An error is printed.
    func fetch() throws -> (response: HTTPResponse, issued: IssuedToken) {
        let start = WallTime.now
        let response: HTTPResponse
        do {
            response = try call()
        } catch let error as AdminCallError {
            throw failure(error)
        } catch let code as ExitCode {
            throw PrintedError(exitCode: code, retryAfter: nil)
        }
        guard let issued = IssuedToken(response.body, requestedAt: start) else {
            throw failure(.notAdminAPI(status: response.status))
        }
        return (response, issued)
    }

    private func call() throws -> HTTPResponse {
        switch place {
        case .broker(let client): return try client.call("GET", query.brokerPath)
        case .admin(let session):
            let user = try session.user(query.user == Self.activeUser ? nil : query.user)
            return try session.client.call("GET", query.adminPath(of: user))
        }
    }

    /// The name that stands for the active user.
    private static let activeUser = "active"

    private func failure(_ error: AdminCallError) -> PrintedError {
        var (exitCode, retryAfter): (ExitCode, Int?) =
            switch place {
            case .broker(let client): (report(error, of: client), nil)
            case .admin(let session): (session.report(error), nil)
            }
        if case .problem(let problem) = error {
            retryAfter = problem.retryAfter
            // EX_TEMPFAIL of sysexits.h: a script may repeat the command.
            if problem.isRetryable { exitCode = ExitCode(75) }
        }
        return PrintedError(exitCode: exitCode, retryAfter: retryAfter)
    }

    // MARK: A broker's errors

    private func report(_ error: AdminCallError, of client: AdminClient) -> ExitCode {
        switch error {
        case .noResponse(let error):
            let remedy =
                switch error {
                case .notConnected(EACCES), .notConnected(EPERM):
                    "let the Unix user of this command use the socket: mode and owner of the broker's listener"
                case .notHTTP, .tooLarge: ReceivedProblem.foreignBrokerRemedy
                default: "start the Lanyard of that broker, or name another one with --broker"
                }
            return CommandFailure.failed(
                "no broker responds at \(client.address): \(error.message)", remedy, exitCode: 69, isRetryable: true)
        case .notAdminAPI(let status):
            return CommandFailure.failed(
                "what responds at \(client.address) is no broker of Lanyard (status \(status))",
                ReceivedProblem.foreignBrokerRemedy, exitCode: 69)
        case .problem(let problem):
            if CommandFailure.printsProblems, problem.body.map(Report.output(json:)) != true {
                Report.output(JSONLayout.text(problem.document))
            }
            let detail = problem.detail.hasSuffix(".") ? String(problem.detail.dropLast()) : problem.detail
            return CommandFailure.explained(
                detail.isEmpty ? problem.title : "\(problem.title): \(detail)", problem.brokerRemedy,
                exitCode: problem.name == "caller-not-allowed" ? 77 : problem.exitCode)
        }
    }
}
