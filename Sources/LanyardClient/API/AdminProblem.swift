import LanyardFoundations

/// A problem of the admin API (RFC 9457), as a command reads it.
package struct AdminProblem: Equatable, Sendable {
    private static let typePrefix = "urn:lanyard:problem:"

    /// The last part of its type, such as `no-such-user`.
    package let name: String
    package let status: Int
    package let title: String
    package let detail: String
    /// The user that is concerned.
    package let user: String?
    /// What the identity service said.
    package let serviceError: String?
    /// The identity service's own code.
    package let errorCode: String?
    /// Seconds until a repeat makes sense.
    package let retryAfter: Int?

    /// nil: the body is not a problem of Lanyard's.
    init?(_ response: HTTPResponse) {
        guard let json = JSONValue.read(response.body), let type = json["type"]?.string,
            type.hasPrefix(Self.typePrefix), let title = json["title"]?.string
        else { return nil }
        name = String(type.dropFirst(Self.typePrefix.count))
        status = response.status
        self.title = title
        detail = json["detail"]?.string ?? ""
        user = json["user"]?.string
        serviceError = json["error"]?.string
        errorCode = json["error_code"]?.string
        retryAfter = response.retryAfter
    }

    /// EX_NOPERM of sysexits.h for a refused credential, so that scripts can tell a wrong password from all else; 1 for the others.
    package var exitCode: Int32 { name == "credential-refused" ? 77 : 1 }

    /// What to do next, as a sentence without its period; nil: `detail` says it.
    package var remedy: String? {
        let user = user ?? "NAME"
        switch name {
        case "credential-refused":
            return "give the right credential; a configured one is in the file that the configuration names"
        case "no-such-user":
            return "lanyard users lists the users; lanyard login NAME with a credential adds one"
        case "no-such-identity": return "name one that the configuration has below identities"
        case "name-in-use": return "choose another name, or log that user in again: lanyard login \(user)"
        case "account-in-use": return "make its user active: lanyard use \(user)"
        case "not-logged-in", "login-required": return "log in: lanyard login \(user)"
        case "login-in-progress": return "wait for its end: lanyard status --watch"
        case "not-supported": return "write the token into the file that the identity's token_file names"
        case "identity-unreachable":
            return "check the identity service and the identity's base_url" + repeated("; repeat the command")
        case "admin-token-required": return "give --token-file, or --config with admin.token_file"
        case "caller-not-allowed": return "run the command as root or as the Unix user that Lanyard runs as"
        case "host-not-allowed": return "give --admin the address that Lanyard is bound to"
        case "token-not-exposed": return "set admin.expose_tokens: true and restart Lanyard"
        case "configuration-invalid": return "correct it, try it with lanyard check, and reload again"
        case "restart-needed": return "restart Lanyard, or take these changes back and reload again"
        case "shutting-down": return "repeat the command after the restart"
        case "overloaded": return "repeat the command" + repeated("")
        case "store-failing": return "see the check store of /readyz and the log for the reason"
        default: return nil
        }
    }

    private func repeated(_ verb: String) -> String {
        retryAfter.map { "\(verb) in \($0) s" } ?? verb
    }
}
