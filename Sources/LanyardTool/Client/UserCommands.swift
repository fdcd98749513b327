import ArgumentParser
import LanyardClient
import LanyardFoundations

/// `lanyard use`: switches the active user.
struct UseCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "use", abstract: "Make a user active, without a login.",
        discussion: "Requests of routes that pin no user carry the active user's token.")

    @Argument(help: "The user's name.", completion: UserCompletion.kind)
    var user: String

    @OptionGroup(title: "Running Lanyard") var admin: AdminOptions
    @OptionGroup(title: "Output") var output: OutputOptions

    func run() throws {
        let name = try AdminSession.checked(user)
        try admin.session(for: output).show("POST", AdminSession.path(name) + "/activate", as: output) { json in
            warnUnlessStored(json, "the switch")
            return "\(name) is active."
        }
    }
}

/// `lanyard logout`: ends a user's session, here and at the service.
struct LogoutCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "logout", abstract: "Log a user out: its tokens are wiped and revoked.",
        discussion: "The logout of a configured user is remembered: it logs in again only by lanyard login.")

    @OptionGroup var subject: UserOptions

    func run() throws {
        let (session, name) = try subject.find()
        try session.show("POST", AdminSession.path(name) + "/logout", as: subject.output) { json in
            if let warning = Self.warning(json["revocation"]?.string) { Report.error("warning: \(warning)") }
            if json["stored"]?.bool == false {
                Report.error(
                    "warning: the store could not take the logout: it holds now, and a restart would undo it")
            }
            return json["removed"]?.bool == true
                ? "\(name) is logged out and removed: no login could lead to that account again."
                : "\(name) is logged out."
        }
    }

    /// What the identity service does not know; nil: it has confirmed the logout, or there was nothing to tell.
    private static func warning(_ revocation: String?) -> String? {
        switch revocation {
        case "pending": "the identity service has not confirmed it; Lanyard keeps trying for a day"
        case "not_supported":
            "the identity service has no revocation: the session is not ended there, and ends by itself"
        case "given_up":
            "the identity service was not told: its identity is not configured, or it did not respond for a day"
        default: nil
        }
    }
}

/// `lanyard refresh`: fetches a new access token now.
struct RefreshCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "refresh", abstract: "Fetch a new access token for a user now.")

    @OptionGroup var subject: UserOptions

    func run() throws {
        let (session, name) = try subject.find()
        try session.show("POST", AdminSession.path(name) + "/refresh", as: subject.output) { json in
            let expiry = json["access_token_expires_at"]?.time.map { "; it \(UserTable.expiry($0, now: .now))" } ?? ""
            return "\(name) has a new access token\(expiry)"
        }
    }
}

/// `lanyard remove`: forgets a user on this device.
struct RemoveCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "remove", abstract: "Remove a user from this device, and end its session.",
        discussion: """
            The account at the service stays; lanyard account delete deletes it. A configured user is back after a restart.
            """)

    @Argument(help: "The user's name.", completion: UserCompletion.kind)
    var user: String

    @OptionGroup(title: "Running Lanyard") var admin: AdminOptions
    @OptionGroup(title: "Output") var output: OutputOptions

    func run() throws {
        let name = try AdminSession.checked(user)
        try admin.session(for: output).show("DELETE", AdminSession.path(name), as: output) { json in
            warnUnlessStored(json, "the removal")
            return "\(name) is removed."
        }
    }
}
