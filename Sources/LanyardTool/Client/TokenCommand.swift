import ArgumentParser
import LanyardClient
import LanyardConfiguration
import LanyardFoundations

/// `lanyard token`: prints a user's access token, for a program that must have it itself.
struct TokenCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "token", abstract: "Print the access token of a user.",
        discussion: """
            The token comes from a broker (--broker), else from the admin API, if admin.expose_tokens is true. A program that has the \
            token is that user until it expires: send requests through Lanyard instead where you can.

            kubectl: command: lanyard, args: [token, NAME, --exec-credential]. \
            git: as credential.helper, with --git-credential last. curl: lanyard token NAME --header | curl -H @- URL.
            """)

    @Argument(
        help:
            "The user's name; active is the active user. (default: the active user; of a broker the caller's only one)",
        completion: UserCompletion.kind)
    var user: String?

    @OptionGroup(title: "Token") var choice: TokenChoiceOptions
    @OptionGroup(title: "Form") var form: TokenFormOptions

    @Flag(help: "Print each further token when the former one is about to end, until the command is interrupted.")
    var watch = false

    @OptionGroup(title: "Broker") var broker: BrokerOptions
    @OptionGroup(title: "Running Lanyard") var admin: AdminOptions
    @OptionGroup(title: "Output") var output: OutputOptions

    func validate() throws {
        if form.count + (output.json ? 1 : 0) > 1 {
            throw ValidationError("--exec-credential, --header, --git-credential and --json are four forms: give one")
        }
        if watch, form.gitCredential != nil {
            throw ValidationError("--watch has no meaning with --git-credential: git runs the command for each token")
        }
        if broker.address != nil, admin.admin != nil || admin.config != nil || admin.tokenFile != nil {
            throw ValidationError("--broker asks a broker; --admin, --config and --token-file are about the admin API")
        }
        if broker.address == nil, broker.capabilityFile != nil {
            throw ValidationError("--capability-file is for a broker: give --broker")
        }
    }

    func run() throws {
        // git asks each helper to keep and to forget what others have given, and may ask for what is unknown here.
        if let operation = form.gitCredential, operation != "get" { return try form.skipInput() }
        let shape = try form.shape()
        let source = try TokenSource(self)
        if watch { return try self.watch(source, shape) }
        do {
            try show(source.fetch(), shape)
        } catch let failure as TokenSource.PrintedError {
            throw failure.exitCode
        }
    }

    private func show(_ fetched: (response: HTTPResponse, issued: IssuedToken), _ shape: TokenForm) throws {
        guard output.json else { return Report.output(shape.text(fetched.issued)) }
        guard Report.output(json: fetched.response.body) else {
            throw CommandFailure.failed(
                "the response with the token is no JSON document", "give the address of a Lanyard", exitCode: 69)
        }
    }

    /// Ends with the reader of the output.
    private func watch(_ source: TokenSource, _ shape: TokenForm) throws {
        var (shown, failures): (Secret?, Int) = (nil, 0)
        while Report.isOutputWhole, !Report.isOutputClosed {
            let delay: Duration
            do {
                let fetched = try source.fetch()
                if shown != fetched.issued.token { try show(fetched, shape) }
                (shown, failures) = (fetched.issued.token, 0)
                delay = TokenSchedule.delay(after: fetched.issued)
            } catch let failure as TokenSource.PrintedError {
                // A restart, a login or another route may be what it waits for. The error is on standard error.
                failures += 1
                delay = TokenSchedule.delay(afterFailures: failures, retryAfter: failure.retryAfter)
            }
            if Report.waitForClosedOutput(delay) { break }
        }
    }
}

/// Which of the user's access tokens.
struct TokenChoiceOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "The token that a route asks for with this token.audience. (default: the one that a login brings)",
            valueName: "audience"))
    var audience: String?

    @Option(help: ArgumentHelp("The same with token.resource; repeat it for several.", valueName: "uri"))
    var resource: [String] = []

    @Option(help: ArgumentHelp("The same with token.scopes; repeat it for several.", valueName: "scope"))
    var scope: [String] = []

    func validate() throws {
        if ([audience].compactMap(\.self) + resource + scope).contains("") {
            throw ValidationError("--audience, --resource and --scope need a text")
        }
    }
}

/// The form in which the token is printed.
struct TokenFormOptions: ParsableArguments {
    @Flag(help: "Print an ExecCredential of client.authentication.k8s.io, for kubectl and client-go.")
    var execCredential = false

    @Flag(help: "Print a line for curl -H @-.")
    var header = false

    @Option(
        help: ArgumentHelp(
            "Be a git credential helper: get reads git's lines from standard input and prints the token as password; store and erase "
                + "do nothing.", valueName: "operation"))
    var gitCredential: String?

    var count: Int { [execCredential, header, gitCredential != nil].count { $0 } }

    /// The form with what the caller says of it: kubectl by a variable, git by standard input.
    func shape() throws -> TokenForm {
        try CommandFailure.reported { () throws(InputError) in
            if execCredential {
                return .execCredential(
                    try ExecCredentialVersion.asked(ProcessEnvironment.all()["KUBERNETES_EXEC_INFO"]))
            }
            guard gitCredential != nil else { return header ? .header : .plain }
            let asked = try GitCredentialRequest(GitCredentialRequest.ofStandardInput())
            guard !asked.isPlainBeyondLoopback else {
                throw InputError(
                    .usage, "git would send the token to \(ConfigurationText.quoted(asked.host)) without TLS",
                    remedy: "use https:// in the URL of the remote")
            }
            return .gitCredential(username: asked.shownUsername)
        }
    }

    /// A helper that ends before git has written would let git's write fail.
    func skipInput() throws {
        _ = try CommandFailure.reported { () throws(InputError) in try GitCredentialRequest.ofStandardInput() }
    }
}
