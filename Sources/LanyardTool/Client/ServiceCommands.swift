import ArgumentParser
import LanyardClient
import LanyardFoundations

/// `lanyard profile`: what the identity service knows of a user's account.
struct ProfileCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "profile", abstract: "Show the profile of a user's account, as the service has it.")

    @OptionGroup var subject: UserOptions

    func run() throws {
        let (session, name) = try subject.find()
        try session.show("GET", AdminSession.path(name) + "/profile", as: subject.output, text: JSONLayout.text)
    }
}

/// `lanyard custom-data`: the custom data of a user's account, fresh from the service.
struct CustomDataCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "custom-data", abstract: "Show the custom data of a user's account, after a refresh.")

    @OptionGroup var subject: UserOptions

    func run() throws {
        let (session, name) = try subject.find()
        try session.show("GET", AdminSession.path(name) + "/custom-data", as: subject.output, text: JSONLayout.text)
    }
}

/// `lanyard call`: calls a function of the service as a user.
struct CallCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "call", abstract: "Call a function of the service as a user.",
        usage: """
            lanyard call NAME [--user USER] [JSON…]
            lanyard call NAME [--user USER] --arguments-file PATH
            """,
        discussion: """
            Each argument is one JSON document, in extended JSON where the service wants it: lanyard call sum 1 2, lanyard call \
            greet '"Ada"'. An argument that begins with - goes after --. Other users of this machine can read a command line: give \
            what is secret by --arguments-file.
            """)

    @Argument(help: "The function's name.")
    var name: String

    @Argument(help: ArgumentHelp("The arguments of the function.", valueName: "json"))
    var arguments: [String] = []

    @Option(
        help: ArgumentHelp("The user. (default: the active user)", valueName: "name"), completion: UserCompletion.kind)
    var user: String?

    @Option(
        help: ArgumentHelp("All arguments as one JSON array; - is standard input.", valueName: "path"),
        completion: .file())
    var argumentsFile: String?

    @OptionGroup(title: "Running Lanyard") var admin: AdminOptions
    @OptionGroup(title: "Output") var output: OutputOptions

    func validate() throws {
        if argumentsFile != nil, !arguments.isEmpty {
            throw ValidationError("--arguments-file has all arguments: give no others")
        }
        if name.isEmpty { throw ValidationError("the function's name is empty") }
    }

    func run() throws {
        let body = try FunctionArguments.body(arguments, file: argumentsFile)
        let session = try admin.session(for: output)
        let user = try session.user(user)
        let path = AdminSession.path(user) + "/functions/" + AdminClient.segment(name)
        try session.show("POST", path, body: body, as: output, text: JSONLayout.text)
    }
}

/// The arguments of a function as a JSON array.
enum FunctionArguments {
    /// - Parameter file: has the whole array; nil: the array is made of `arguments`.
    static func body(_ arguments: [String], file: String?) throws -> Secret {
        try CommandFailure.reported { () throws(InputError) in
            if let file { return try SecretInput.json(file, .array, prompt: "Arguments") }
            var array = SecretBuffer()
            array.append("[")
            for (index, argument) in arguments.enumerated() {
                if index > 0 { array.append(",") }
                array.append(try checked(argument, number: index + 1))
            }
            array.append("]")
            return array.seal()
        }
    }

    private static func checked(_ argument: String, number: Int) throws(InputError) -> String {
        var buffer = SecretBuffer()
        buffer.append(argument)
        do throws(InputError) {
            try SecretInput.check(buffer.seal(), .any, named: "argument \(number)")
        } catch {
            throw InputError(.usage, error.message, remedy: "write JSON; text needs double quotes: '\"text\"'")
        }
        return argument
    }
}
