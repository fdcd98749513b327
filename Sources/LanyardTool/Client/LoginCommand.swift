import ArgumentParser
import Glibc
import LanyardClient
import LanyardConfiguration
import LanyardFoundations
import LanyardSettings

/// `lanyard login`: logs a user in, a known one again or a new one.
struct LoginCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "login", abstract: "Log a user in, and make it active.",
        usage: """
            lanyard login [USER]
            lanyard login USER [--identity NAME] --email ADDRESS [--password-file PATH]
            lanyard login USER [--identity NAME] --api-key-file PATH | --anonymous | --function-payload-file PATH | …
            lanyard login USER [--device | --browser] [--no-browser] [--redirect-port PORT]
            """,
        discussion: """
            A known user without a credential logs in with the configured one. A new user needs a credential. A secret is typed \
            at a prompt without echo, or read from a file or standard input. It is used once and not kept. A login by device or \
            browser shows where to confirm it, and waits; Ctrl-C ends it.
            """)

    @Argument(help: "The user's name. (default: the only user)", completion: UserCompletion.kind)
    var user: String?

    @Option(
        help: ArgumentHelp(
            "The identity of a new user. (default: the only one of the configuration)", valueName: "name"))
    var identity: String?

    @Flag(help: "Print the address to open, and start no browser.")
    var noBrowser = false

    @Option(
        help: ArgumentHelp(
            "The port of 127.0.0.1 where the browser begins and comes back. (default: a free one)", valueName: "port"))
    var redirectPort: UInt16 = 0

    @Flag(help: "Leave the active user as it is.")
    var noActivate = false

    @OptionGroup(title: "Credential") var credentials: CredentialOptions
    @OptionGroup(title: "Running Lanyard") var admin: AdminOptions
    @OptionGroup(title: "Output") var output: OutputOptions

    func run() throws {
        let session = try admin.session(for: output)
        let users = try session.users()
        let name = try userName(among: users, of: session)
        var body = RequestBody()
        let path: String
        if let known = users.first(where: { $0.name == name }) {
            if let identity, identity != known.identity {
                throw CommandFailure.usage(
                    "\(name) is a user of \(known.identity), not of \(identity)",
                    "choose another name for an account of \(identity), or leave --identity out")
            }
            path = AdminSession.path(name) + "/login"
        } else {
            try checkNewName(name, among: users)
            path = "/v1/users"
            body.add("name", name)
            body.add("identity", try session.identity(identity))
        }
        let credential = try credentials.credential()
        credential?.write(into: &body)
        if noActivate { body.add("activate", false) }
        var listener: RedirectListener?
        if credential?.kind == .authorizationCode {
            let bound = try redirectListener()
            body.add("redirect_uri", bound.uri)
            listener = bound
        }
        let first = body.seal()
        let response: HTTPResponse
        do {
            response = try CallProgress.show("login of \(name)", of: name, by: session.client) {
                try session.client.call("POST", path, body: first)
            }
        } catch let error as AdminCallError {
            // Only Lanyard knows that the configured login of this user is one with a browser here.
            guard case .problem(let problem) = error, problem.name == "redirect-needed", listener == nil else {
                throw session.report(error)
            }
            let bound = try redirectListener()
            listener = bound
            var again = RequestBody()
            if noActivate { again.add("activate", false) }
            again.add("redirect_uri", bound.uri)
            response = try session.call("POST", path, body: again.seal())
        }
        guard response.status == 202 else { return try show(response, name, session) }
        let wait = BrowserLoginWait(
            of: name, session: session, listener: listener, opensBrowser: !noBrowser && !output.json)
        try show(wait.result(try session.json(of: response)), of: name)
    }

    private func redirectListener() throws -> RedirectListener {
        guard let listener = RedirectListener(port: redirectPort) else {
            throw CommandFailure.usage(
                "port \(redirectPort) of 127.0.0.1 cannot be bound (\(Errno.text(of: errno)))",
                "give --redirect-port another port that the client has at the server, or leave it out")
        }
        return listener
    }

    private func show(_ response: HTTPResponse, _ name: String, _ session: AdminSession) throws {
        if output.json { return try session.show(response) }
        try show(session.json(of: response), of: name)
    }

    private func show(_ json: JSONValue, of name: String) throws {
        if output.json { return Report.output(JSONLayout.text(json)) }
        warnUnlessStored(json, "the session")
        Report.output(UserReport(json).map(Self.text) ?? "\(name) is logged in.")
    }

    /// The given name, else that of the only user.
    private func userName(among users: [UserReport], of session: AdminSession) throws -> String {
        if let user { return try AdminSession.checked(user) }
        if users.count == 1 { return try session.known(users[0].name) }
        throw CommandFailure.usage(
            "the user is missing",
            users.isEmpty
                ? "name the new user: lanyard login NAME --email ADDRESS"
                : "name one of \(users.map(\.name).joined(separator: ", ")), or a new one with a credential")
    }

    private func checkNewName(_ name: String, among users: [UserReport]) throws {
        guard !credentials.isGiven else { return }
        let nearest = NearestName.of(name, among: users.map(\.name)).map { "did you mean \($0)? " } ?? ""
        throw CommandFailure.usage(
            "there is no user \(name)", nearest + "a new user needs a credential, such as --email ADDRESS")
    }

    private static func text(_ user: UserReport) -> OperatorText {
        var parts = [user.name + " is " + (user.state == "active" ? "logged in and active" : "logged in")]
        if let account = user.accountID { parts.append("account \(account)") }
        if let time = user.accessTokenExpiry {
            parts.append("the access token " + UserTable.expiry(time, now: .now))
        }
        return OperatorText(line: parts.joined(separator: "; "))
    }
}

/// Says on standard error that the store did not take a change.
func warnUnlessStored(_ json: JSONValue, _ subject: String) {
    if json["stored"]?.bool == false {
        Report.error("warning: the store could not take \(subject): it holds now, and a restart would not find it")
    }
}

/// `lanyard link`: adds another identity of the service to a user's account.
struct LinkCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "link", abstract: "Add another login to the account of a user.",
        usage: """
            lanyard link USER --email ADDRESS [--password-file PATH]
            lanyard link USER --api-key-file PATH | --jwt-file PATH | …
            """,
        discussion: "Afterwards the account can log in in both ways. The user must be logged in.")

    @Argument(help: "The user's name. (default: the active user)", completion: UserCompletion.kind)
    var user: String?

    @OptionGroup(title: "Credential") var credentials: CredentialOptions
    @OptionGroup(title: "Running Lanyard") var admin: AdminOptions
    @OptionGroup(title: "Output") var output: OutputOptions

    func validate() throws {
        if !credentials.isGiven { throw ValidationError("name the credential to add, such as --email ADDRESS") }
    }

    func run() throws {
        let session = try admin.session(for: output)
        let name = try session.user(user)
        var body = RequestBody()
        try credentials.credential()?.write(into: &body)
        try session.show("POST", AdminSession.path(name) + "/link", body: body.seal(), as: output) { json in
            let identities = (json["identities"]?.elements ?? []).compactMap { $0["provider_type"]?.string }
            return "the account of \(name) has these logins now: \(identities.joined(separator: ", "))"
        }
    }
}
