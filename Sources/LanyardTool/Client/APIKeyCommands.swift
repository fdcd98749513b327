import ArgumentParser
import LanyardClient
import LanyardFoundations

/// `lanyard api-keys`: the API keys of a user's account.
struct APIKeysCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "api-keys", abstract: "List, create, show, enable, disable and delete API keys of a user.",
        subcommands: [List.self, Create.self, Show.self, Enable.self, Disable.self, Delete.self])

    /// Whose keys.
    struct Owner: ParsableArguments {
        @Option(
            help: ArgumentHelp("The user. (default: the active user)", valueName: "name"),
            completion: UserCompletion.kind)
        var user: String?

        @OptionGroup(title: "Running Lanyard") var admin: AdminOptions
        @OptionGroup(title: "Output") var output: OutputOptions

        /// The session with the path of the keys, or of one of them.
        func path(_ id: String? = nil) throws -> (session: AdminSession, path: String) {
            let session = try admin.session(for: output)
            let keys = AdminSession.path(try session.user(user)) + "/api-keys"
            guard let id else { return (session, keys) }
            guard !id.isEmpty else { throw CommandFailure.usage("the key's id is empty", "lanyard api-keys list") }
            return (session, "\(keys)/\(AdminClient.segment(id))")
        }

        /// Makes a call of one key, and prints its result.
        func change(_ id: String, _ method: String, _ verb: String, _ outcome: String) throws {
            let (session, path) = try path(id)
            try session.show(method, path + verb, as: output) { _ in "\(id) is \(outcome)." }
        }
    }

    struct List: ParsableCommand {
        static let configuration = CommandConfiguration(commandName: "list", abstract: "List the keys.")

        @OptionGroup var owner: Owner

        func run() throws {
            let (session, path) = try owner.path()
            try session.show("GET", path, as: owner.output) { json in
                let keys = json["api_keys"]?.elements ?? []
                return keys.isEmpty
                    ? "There are no keys: lanyard api-keys create NAME makes one." : APIKeyText.table(keys)
            }
        }
    }

    struct Create: ParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "create", abstract: "Create a key, and print it this one time.")

        @Argument(help: "The name of the new key.")
        var name: String

        @OptionGroup var owner: Owner

        func run() throws {
            let (session, path) = try owner.path()
            var body = RequestBody()
            body.add("name", name)
            let response = try session.call("POST", path, body: body.seal())
            if owner.output.json { return try session.show(response) }
            guard let key = JSONSecret.member("key", of: response.body),
                let id = JSONSecret.member("id", of: response.body), id.isVisibleASCII, key.isVisibleASCII,
                Report.output(credential: id, label: "id:  "), Report.output(credential: key, label: "key: ")
            else { throw session.report(.notAdminAPI(status: response.status)) }
            Report.error("The key is shown this one time: keep it in a file that only its user can read.")
        }
    }

    struct Show: ParsableCommand {
        static let configuration = CommandConfiguration(commandName: "show", abstract: "Show a key's name and state.")

        @Argument(help: "The key's id.")
        var id: String

        @OptionGroup var owner: Owner

        func run() throws {
            let (session, path) = try owner.path(id)
            try session.show("GET", path, as: owner.output) { APIKeyText.table([$0]) }
        }
    }

    struct Enable: ParsableCommand {
        static let configuration = CommandConfiguration(commandName: "enable", abstract: "Enable a key.")

        @Argument(help: "The key's id.")
        var id: String

        @OptionGroup var owner: Owner

        func run() throws {
            try owner.change(id, "POST", "/enable", "enabled")
        }
    }

    struct Disable: ParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "disable", abstract: "Disable a key: no login with it until it is enabled.")

        @Argument(help: "The key's id.")
        var id: String

        @OptionGroup var owner: Owner

        func run() throws {
            try owner.change(id, "POST", "/disable", "disabled")
        }
    }

    struct Delete: ParsableCommand {
        static let configuration = CommandConfiguration(commandName: "delete", abstract: "Delete a key for good.")

        @Argument(help: "The key's id.")
        var id: String

        @OptionGroup var owner: Owner

        func run() throws {
            try owner.change(id, "DELETE", "", "deleted")
        }
    }
}

/// API keys as a table.
enum APIKeyText {
    static func table(_ keys: [JSONValue]) -> OperatorText {
        var table = TextTable(["ID", "NAME", "STATE"])
        for key in keys {
            let isDisabled = key["disabled"]?.bool == true
            table.add([
                .init(key["id"]?.string ?? "-"),
                .init(key["name"]?.string ?? "-"),
                .init(isDisabled ? "disabled" : "enabled", isDisabled ? .doubtful : .good),
            ])
        }
        return table.text(usesColour: Colour.isUsed)
    }
}
