import ArgumentParser
import Glibc
import Lanyard
import LanyardClient
import LanyardConfiguration
import LanyardFoundations
import LanyardSettings
import LanyardVault

/// `lanyard init`: writes a configuration of one user, checks it, and says what to do next.
///
/// Exit 0; 64 if values are missing and there is no terminal; 74 on a full disk; 78 for a wrong value, or a file that exists or cannot be
/// made. What does not respond yet is a warning: the file is written.
struct InitCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "init", abstract: "Write a configuration, from questions or from flags.",
        usage: """
            lanyard init [--output PATH]
            lanyard init [--output PATH] --upstream URL --issuer URL --client-id ID [--client-secret-file PATH] [--login KIND]
            lanyard init [--output PATH] --upstream URL --token-file PATH
            lanyard init [--output PATH] --upstream URL --app-id ID --base-url URL --email ADDRESS --password-file PATH
            """,
        discussion: """
            On a terminal it asks for what no flag gives. The file gets mode 0600 and comments; an existing one is never changed. Secrets \
            stay in files of their own, which the configuration names. Logins that have a refresh token get a store, whose key is made \
            beside the file. The other flags are those of run (lanyard run --help).
            """)

    @Option(help: ArgumentHelp("The file to write. (default: lanyard.yaml)", valueName: "path"))
    var output = "lanyard.yaml"

    @Option(
        help: ArgumentHelp(
            "The login. (default: client_credentials with --client-secret-file, else what the flags tell, else device)",
            valueName: "kind"))
    var login: LoginArgument?

    @Option(
        help: ArgumentHelp("The file of a refresh token: the login refresh_token.", valueName: "path"),
        completion: .file())
    var refreshTokenFile: String?

    @Flag(help: "Do not connect to the identity service and the upstream afterwards.")
    var noOnline = false

    @Argument(parsing: .allUnrecognized, help: ArgumentHelp("Configuration flags, as of run.", valueName: "flags"))
    var flags: [String] = []

    func validate() throws {
        if output.isEmpty { throw ValidationError("--output has no value") }
        // It stands in a comment of the file.
        if output.unicodeScalars.contains(where: { $0.value < 0x20 || $0.value == 0x7f }) {
            throw ValidationError("--output has a control character; give another path")
        }
        if refreshTokenFile?.isEmpty == true { throw ValidationError("--refresh-token-file has no value") }
    }

    func run() throws {
        // They would count beside the file that is written.
        for name in ProcessEnvironment.all().keys where name.hasPrefix("LANYARD_") { unsetenv(name) }
        // Of a limit on file sizes write(2) tells, too.
        signal(SIGXFSZ, SIG_IGN)
        let file = InitFile(path: output)
        try file.checkPlace()
        var draft = ConfigurationDraft(
            arguments: flags, login: login?.login, refreshTokenFile: refreshTokenFile, asks: SecretInput.isTerminal)
        try InitQuestions.complete(&draft)
        try checkValues(draft)
        try file.write(draft)
        try check(file)
        if !noOnline { connect(file) }
        Report.output(OperatorText(InitNextSteps(draft, file).lines.map { OperatorText(line: $0) }))
    }

    /// The values as `run` would take them from flags: an error names its flag, and nothing is written.
    private func checkValues(_ draft: ConfigurationDraft) throws {
        let environment = ProcessEnvironment.all().filter { !$0.key.hasPrefix("LANYARD_") }
        let loaded = draft.loaded(environment: environment)
        let errors = loaded.diagnostics.filter { $0.severity != .warning }
        guard !errors.isEmpty else { return }
        Report.diagnostics(errors)
        Report.error(
            OperatorText(line: "what to do: correct it; nothing was written: \(draft.commandLine(output: output))"))
        throw ExitCode(loaded.exitCode ?? 78)
    }

    /// As `lanyard check` does.
    private func check(_ file: InitFile) throws {
        do {
            try CheckCommand.parse(["--config=\(file.path)"]).run()
        } catch {
            Report.error("what to do: \(file.path) is written; correct it, then lanyard check --config \(file.shown)")
            throw error
        }
    }

    /// Connects once. What cannot be reached may be reached later.
    private func connect(_ file: InitFile) {
        let loaded = Configuration.load(arguments: ["--config=\(file.path)"], environment: ProcessEnvironment.all())
        var ignored: [CheckFinding] = []
        let files = CheckedFiles(loaded, &ignored)
        guard let configuration = loaded.configuration, let tls = files.upstreamTLS, let identityTLS = files.identityTLS
        else { return }
        Report.progress("connecting to the identity service and the upstream, 15 s at most")
        let check = OnlineCheck(configuration, upstreamTLS: tls, identityTLS: identityTLS)
        let findings: [OnlineCheck.Finding]
        do throws(SystemError) {
            findings = try check.findings()
        } catch {
            return Report.error("warning: no connection can be tried: \(error)")
        }
        for finding in findings {
            if finding.outcome == .failed {
                Report.error("warning: \(finding.text)")
            } else {
                Report.output("\(finding.outcome.rawValue) \(finding.text)")
            }
        }
        guard findings.contains(where: { $0.outcome == .failed }) else { return }
        Report.error(
            "what to do: \(file.path) is written; correct it or wait, then lanyard check --online --config \(file.shown)"
        )
    }
}

/// The kind of login on the command line. Dashes are taken for the underscores of the configuration's keys.
struct LoginArgument: ExpressibleByArgument {
    let login: ConfigurationDraft.Login

    init?(argument: String) {
        guard let login = ConfigurationDraft.Login(rawValue: String(argument.map { $0 == "-" ? "_" : $0 })) else {
            return nil
        }
        self.login = login
    }

    static let allValueStrings = ConfigurationDraft.Login.allCases.map(\.rawValue)
    var defaultValueDescription: String { login.rawValue }
}

/// The questions of `lanyard init`. They are ASCII: a terminal may show nothing else.
enum InitQuestions {
    /// Asks for what the draft lacks.
    ///
    /// - Throws: 64 if the command line contradicts itself, if there is no terminal, or if the input ends.
    static func complete(_ draft: inout ConfigurationDraft) throws {
        try refuse(draft)
        guard draft.login == nil || !draft.missing.isEmpty else { return }
        guard SecretInput.isTerminal else { throw missing(draft) }
        Report.error("An empty line takes the value in brackets. Ctrl-C ends it, and nothing is written.")
        while true {
            if let question = draft.nextQuestion {
                try ask(question, &draft)
            } else if draft.login == nil {
                draft.choose(try login())
                try refuse(draft)
            } else {
                return
            }
        }
    }

    private static func refuse(_ draft: ConfigurationDraft) throws {
        guard !draft.diagnostics.isEmpty else { return }
        Report.diagnostics(draft.diagnostics)
        throw ExitCode(64)
    }

    private static func missing(_ draft: ConfigurationDraft) -> ExitCode {
        var names = draft.missing.map(\.flag)
        if draft.login == nil { names.append("--issuer and --client-id (or --token-file, or --app-id and --base-url)") }
        return CommandFailure.usage(
            "standard input is no terminal, so nothing can be asked; missing: \(names.joined(separator: ", "))",
            "give these flags, or run lanyard init on a terminal; lanyard init --help lists the logins")
    }

    private static func ask(_ question: ConfigurationDraft.Question, _ draft: inout ConfigurationDraft) throws {
        let suggestion = question.suggestion.map { $0.isEmpty ? "" : " [\($0)]" } ?? ""
        while true {
            let text = try line("\(question.text)\(suggestion): ")
            if text.isEmpty, question.suggestion == nil {
                Report.error("error: a value is needed")
                continue
            }
            do throws(ConfigurationValue.ValueError) {
                return try draft.reply(text, to: question)
            } catch {
                // A terminal may show ASCII alone.
                let text = "\(error.message); \(error.remedy)".replacing("\u{2026}", with: "...")
                Report.error("error: \(text)")
            }
        }
    }

    private static func login() throws -> ConfigurationDraft.Login {
        let logins = ConfigurationDraft.Login.allCases
        let width = logins.map(\.rawValue.count).max() ?? 0
        var lines = ["How the token is obtained:"]
        for (index, login) in logins.enumerated() {
            let blanks = String(repeating: " ", count: width - login.rawValue.count)
            lines.append("  \(index + 1)  \(login.rawValue)\(blanks)  \(login.meaning)")
        }
        Report.error(OperatorText(lines.map { OperatorText(line: $0) }))
        while true {
            let text = try line("Number or word [1]: ")
            if text.isEmpty { return logins[0] }
            if let number = Int(text), logins.indices.contains(number - 1) { return logins[number - 1] }
            if let argument = LoginArgument(argument: text) { return argument.login }
            Report.error(
                "error: \(ConfigurationText.quoted(text)) is none of them; write a number from 1 to \(logins.count)")
        }
    }

    private static func line(_ prompt: String) throws -> String {
        while true {
            switch LinePrompt.read(prompt) {
            case .line(let text): return text
            case .unreadable: Report.error("error: that is no text in UTF-8 of one line; type it again")
            case .end:
                throw CommandFailure.usage(
                    "the input has ended: nothing was written",
                    "repeat the command and give each value, or give them as flags")
            }
        }
    }
}
