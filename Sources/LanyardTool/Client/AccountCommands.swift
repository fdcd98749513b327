import ArgumentParser
import LanyardClient
import LanyardFoundations

/// `lanyard account`: accounts with email and password at an identity service.
struct AccountCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "account", abstract: "Register, confirm, reset and delete accounts at the identity service.",
        subcommands: [
            Register.self, Confirm.self, ResendConfirmation.self, RetryCustomConfirmation.self, SendResetEmail.self,
            ResetPassword.self, CallResetFunction.self, Delete.self,
        ])

    /// The identity of an account.
    struct Identity: ParsableArguments {
        @Option(
            help: ArgumentHelp(
                "The identity. (default: the only one of the configuration)", valueName: "name"))
        var identity: String?

        @OptionGroup(title: "Running Lanyard") var admin: AdminOptions
        @OptionGroup(title: "Output") var output: OutputOptions

        /// Finds the identity. Nothing is connected.
        func place() throws -> (session: AdminSession, path: String) {
            let session = try admin.session(for: output)
            return (session, "/v1/identities/\(try session.identity(identity))/email-password/")
        }

        /// Makes a call that needs no more than the account's email address, and prints `text`.
        func call(_ verb: String, of email: String, _ text: OperatorText) throws {
            let (session, path) = try place()
            var body = RequestBody()
            body.add("email", email)
            try session.show("POST", path + verb, body: body.seal(), as: output) { _ in text }
        }
    }

    /// The secrets of account calls.
    enum Secrets {
        /// Two typed passwords must be the same, since a mistake would lock the account's owner out.
        static func newPassword(_ path: String?, of subject: String) throws -> Secret {
            try CommandFailure.reported { () throws(InputError) in
                let password = try SecretInput.read(path, prompt: "New password of \(subject)")
                guard path == nil || path == SecretInput.standardInput, SecretInput.isTerminal else { return password }
                guard try SecretInput.read(path, prompt: "The same again") == password else {
                    throw InputError(
                        .usage, "the two passwords differ: nothing was sent",
                        remedy: "repeat the command and type the same password twice")
                }
                return password
            }
        }

        static func token(_ path: String?) throws -> Secret {
            try CommandFailure.reported { () throws(InputError) in
                try SecretInput.read(path, as: .token, prompt: "Token of the email")
            }
        }
    }

    struct Register: ParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "register", abstract: "Register an account; the service may want a confirmation.")

        @Option(help: ArgumentHelp("The account's email address.", valueName: "address"))
        var email: String

        @Option(
            help: ArgumentHelp(
                "Its password; - is standard input. (default: a prompt on a terminal, else standard input)",
                valueName: "path"),
            completion: .file())
        var passwordFile: String?

        @OptionGroup var identity: Identity

        func run() throws {
            let (session, path) = try identity.place()
            var body = RequestBody()
            body.add("email", email)
            body.add("password", try Secrets.newPassword(passwordFile, of: email))
            try session.show("POST", path + "register", body: body.seal(), as: identity.output) { _ in
                """
                \(email) is registered. If the app wants a confirmation, give it first: lanyard account confirm takes the tokens of \
                the service's email. Then log in: lanyard login NAME --email \(email)
                """
            }
        }
    }

    struct Confirm: ParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "confirm", abstract: "Confirm an account with the token of the service's email.")

        @Option(help: ArgumentHelp("The token id of the email's link.", valueName: "id"))
        var tokenID: String

        @Option(
            help: ArgumentHelp(
                "The token of the email's link; - is standard input. (default: a prompt on a terminal, else standard input)",
                valueName: "path"),
            completion: .file())
        var emailTokenFile: String?

        @OptionGroup var identity: Identity

        func run() throws {
            let (session, path) = try identity.place()
            var body = RequestBody()
            body.add("token", try Secrets.token(emailTokenFile))
            body.add("token_id", tokenID)
            try session.show("POST", path + "confirm", body: body.seal(), as: identity.output) { _ in
                "The account is confirmed."
            }
        }
    }

    struct ResendConfirmation: ParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "resend-confirmation", abstract: "Let the service send its confirmation email again.")

        @Option(help: ArgumentHelp("The account's email address.", valueName: "address"))
        var email: String

        @OptionGroup var identity: Identity

        func run() throws {
            try identity.call(
                "resend-confirmation", of: email, "The confirmation email to \(email) is sent again.")
        }
    }

    struct RetryCustomConfirmation: ParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "retry-custom-confirmation", abstract: "Let the service run its confirmation function again.")

        @Option(help: ArgumentHelp("The account's email address.", valueName: "address"))
        var email: String

        @OptionGroup var identity: Identity

        func run() throws {
            try identity.call(
                "retry-custom-confirmation", of: email, "The confirmation function for \(email) has run again.")
        }
    }

    struct SendResetEmail: ParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "send-reset-email", abstract: "Let the service send an email with which the password is reset."
        )

        @Option(help: ArgumentHelp("The account's email address.", valueName: "address"))
        var email: String

        @OptionGroup var identity: Identity

        func run() throws {
            try identity.call(
                "send-reset-email", of: email,
                "The email to \(email) is sent; its link has what lanyard account reset-password asks for.")
        }
    }

    struct ResetPassword: ParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "reset-password", abstract: "Set a new password with the token of the service's email.")

        @Option(help: ArgumentHelp("The token id of the email's link.", valueName: "id"))
        var tokenID: String

        @Option(
            help: ArgumentHelp(
                "The token of the email's link; - is standard input. (default: a prompt on a terminal)",
                valueName: "path"),
            completion: .file())
        var emailTokenFile: String?

        @Option(
            help: ArgumentHelp(
                "The new password; - is standard input. (default: a prompt on a terminal, else standard input)",
                valueName: "path"),
            completion: .file())
        var passwordFile: String?

        @OptionGroup var identity: Identity

        func run() throws {
            let isToken = emailTokenFile == nil || emailTokenFile == SecretInput.standardInput
            let isPassword = passwordFile == nil || passwordFile == SecretInput.standardInput
            if isToken, isPassword, !SecretInput.isTerminal {
                throw CommandFailure.usage(
                    "standard input can give one secret, and this call takes two",
                    "give --email-token-file or --password-file a file")
            }
            let (session, path) = try identity.place()
            var body = RequestBody()
            body.add("token", try Secrets.token(emailTokenFile))
            body.add("token_id", tokenID)
            body.add("password", try Secrets.newPassword(passwordFile, of: "the account"))
            try session.show("POST", path + "reset-password", body: body.seal(), as: identity.output) { _ in
                "The password is set."
            }
        }
    }

    struct CallResetFunction: ParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "call-reset-function", abstract: "Let the service's reset function set a new password.",
            usage: """
                lanyard account call-reset-function --email ADDRESS [--password-file PATH] [JSON…]
                lanyard account call-reset-function --email ADDRESS --password-file PATH --arguments-file PATH
                """)

        @Option(help: ArgumentHelp("The account's email address.", valueName: "address"))
        var email: String

        @Option(
            help: ArgumentHelp(
                "The new password; - is standard input. (default: a prompt on a terminal, else standard input)",
                valueName: "path"),
            completion: .file())
        var passwordFile: String?

        @Argument(help: ArgumentHelp("Further arguments of the function.", valueName: "json"))
        var arguments: [String] = []

        @Option(
            help: ArgumentHelp("The further arguments as one JSON array.", valueName: "path"), completion: .file())
        var argumentsFile: String?

        @OptionGroup var identity: Identity

        func validate() throws {
            if argumentsFile != nil, !arguments.isEmpty {
                throw ValidationError("--arguments-file has all arguments: give no others")
            }
            if argumentsFile == SecretInput.standardInput {
                throw ValidationError("--arguments-file: standard input is for the password")
            }
        }

        func run() throws {
            let (session, path) = try identity.place()
            var body = RequestBody()
            body.add("email", email)
            body.add("password", try Secrets.newPassword(passwordFile, of: email))
            if argumentsFile != nil || !arguments.isEmpty {
                body.add("arguments", json: try FunctionArguments.body(arguments, file: argumentsFile))
            }
            try session.show("POST", path + "call-reset-function", body: body.seal(), as: identity.output) { _ in
                "The reset function for \(email) has run."
            }
        }
    }

    struct Delete: ParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "delete", abstract: "Delete a user's account at the service, and the user here.",
            discussion: "It cannot be undone. The user must be logged in.")

        @Argument(help: "The user's name.", completion: UserCompletion.kind)
        var user: String

        @Flag(help: "Do not ask. Without a terminal the command needs it.")
        var yes = false

        @OptionGroup(title: "Running Lanyard") var admin: AdminOptions
        @OptionGroup(title: "Output") var output: OutputOptions

        func run() throws {
            let name = try AdminSession.checked(user)
            if !yes { try confirm(name) }
            let path = AdminSession.path(name) + "?account=delete"
            try admin.session(for: output).show("DELETE", path, as: output) { _ in "The account of \(name) is deleted."
            }
        }

        private func confirm(_ name: String) throws {
            guard SecretInput.isTerminal else {
                throw CommandFailure.usage("deleting an account cannot be undone", "confirm it with --yes")
            }
            Report.error("The account of \(name) is deleted for good. Write the user's name to continue:")
            guard readLine() == name else {
                throw CommandFailure.usage(
                    "that is not \(name): nothing was deleted", "repeat the command and type the name, or give --yes")
            }
        }
    }
}
