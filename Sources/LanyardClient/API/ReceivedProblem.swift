import LanyardFoundations

/// A problem of the admin API (RFC 9457), as a command reads it.
package struct ReceivedProblem: Equatable, Sendable {
    private static let typePrefix = "urn:lanyard:problem:"

    /// The last part of its type, such as `no-such-user`.
    package let name: String
    package let status: Int
    package let title: String
    package let detail: String
    /// The user that is concerned.
    package let user: String?
    /// What to do, where Lanyard knows the cause; nil: the problem's name decides.
    let knownRemedy: String?
    /// What the identity service said.
    package let serviceError: String?
    /// The identity service's own code.
    package let errorCode: String?
    /// Seconds until a repeat makes sense.
    package let retryAfter: Int?
    /// All of its members.
    package let document: JSONValue
    /// The response that it is; nil: it is part of another document.
    package let body: Secret?

    /// nil: the body is not a problem of Lanyard's.
    init?(_ response: HTTPResponse) {
        guard let json = JSONValue.read(response.body) else { return nil }
        self.init(json, status: response.status, retryAfter: response.retryAfter, body: response.body)
    }

    /// The problem that a login in a browser has ended in; nil: it is not one of Lanyard's.
    package init?(_ json: JSONValue) {
        self.init(json, status: json["status"]?.integer ?? 0, retryAfter: nil, body: nil)
    }

    private init?(_ json: JSONValue, status: Int, retryAfter: Int?, body: Secret?) {
        guard let type = json["type"]?.string,
            type.hasPrefix(Self.typePrefix), let title = json["title"]?.string
        else { return nil }
        name = String(type.dropFirst(Self.typePrefix.count))
        self.status = status
        self.title = title
        detail = json["detail"]?.string ?? ""
        user = json["user"]?.string
        knownRemedy = json["remedy"]?.string
        serviceError = json["error"]?.string
        errorCode = json["error_code"]?.string
        self.retryAfter = retryAfter
        document = json
        self.body = body
    }

    /// Whether the detail has these words, so that they need not be printed again.
    package func detailHas(_ words: String) -> Bool {
        let bytes = Array(detail.utf8)
        return words.isEmpty || bytes.indices.contains { bytes[$0...].starts(with: words.utf8) }
    }

    /// EX_NOPERM of sysexits.h for a refused credential, so that scripts can tell a wrong password from all else; 1 for the others.
    package var exitCode: Int32 { name == "credential-refused" ? 77 : 1 }

    /// The same call may succeed later, without an operator.
    package var isRetryable: Bool { document["retryable"]?.bool == true }

    /// What to do next about a problem of a broker, as a sentence without its period.
    package var brokerRemedy: String {
        switch name {
        case "caller-not-allowed":
            "add a row for this caller, user and audience to callers of that broker; where a row names capability_file, give "
                + "--capability-file"
        case "login-required": knownRemedy ?? "log the user in where that broker runs: lanyard login \(user ?? "NAME")"
        case "no-such-token": "name the audience, the resources and the scopes as token of a route there has them"
        case "host-not-allowed": "give --broker the address that the broker is bound to"
        case "no-route", "method-not-allowed": Self.foreignBrokerRemedy
        default: remedy
        }
    }

    /// For what is no broker.
    package static let foreignBrokerRemedy =
        "give --broker the address of a broker that serves token, as brokers of the configuration of that Lanyard has it"

    /// What to do next, as a sentence without its period.
    package var remedy: String {
        knownRemedy ?? Self.remedy(name, user: user ?? "NAME", retryAfter: retryAfter) ?? Self.unknownRemedy
    }

    /// For a name that no admin API of this version uses, such as one of the request path.
    package static let unknownRemedy =
        "check that --admin names the admin API, and that the running Lanyard has the version of this command"

    /// What to do about a problem of the admin API; nil: it has no problem of that name.
    ///
    /// - Parameter retryAfter: seconds until a repeat makes sense; nil: unknown.
    package static func remedy(_ name: String, user: String, retryAfter: Int? = nil) -> String? {
        let wait = retryAfter.map { " in \($0) s" } ?? ""
        return switch name {
        case "credential-refused":
            "give the right credential; a configured one is in the file that the configuration names; after a repair or a "
                + "confirmation of the account: repeat the command"
        case "no-such-user": "lanyard users lists the users; lanyard login NAME with a credential adds one"
        case "no-such-identity": "name one that the configuration has below identities"
        case "no-such-login": "begin it again: lanyard login \(user)"
        case "redirect-needed": "log in with the command, which has an address for the browser: lanyard login \(user)"
        case "no-such-token": "name the audience, the resources and the scopes as token of a route has them"
        case "name-in-use": "choose another name, or log that user in again: lanyard login \(user)"
        case "account-in-use": "make its user active: lanyard use \(user)"
        case "not-logged-in", "login-required": "log in: lanyard login \(user)"
        case "login-in-progress": "wait for its end: lanyard status --watch"
        case "not-supported": "use the command for a user whose identity has such calls"
        case "identity-error":
            "correct what the identity service names: the credential, the account or the app's settings"
        case "identity-unreachable":
            "check the identity service and the way to it; repeat the command\(wait)"
        case "admin-token-required": "give --token-file, or --config with admin.token_file"
        case "caller-not-allowed": "run the command as root or as the Unix user that Lanyard runs as"
        case "host-not-allowed": "give --admin the address that Lanyard is bound to"
        case "origin-not-allowed": "call the admin API with a command or a program, not from a web page"
        case "token-not-exposed": "set admin.expose_tokens: true and restart Lanyard"
        case "configuration-invalid": "correct it, try it with lanyard check, and reload again"
        case "restart-needed": "restart Lanyard, or take these changes back and reload again"
        case "shutting-down": "repeat the command after the restart"
        case "overloaded": "repeat the command\(wait)"
        case "store-failing": "lanyard status says why the store cannot be written; then repeat the command"
        case "invalid-value": "correct the value that the message names; --help of the command has the allowed ones"
        case "no-route", "method-not-allowed": "restart Lanyard with the version of this command"
        case "malformed-request", "expectation-failed", "not-implemented", "version-not-supported":
            "use the command of the running Lanyard's version, and report this if it is that version already"
        case "content-too-large": "send less: a call of the admin API takes 1088 KiB"
        case "fields-too-large", "uri-too-long": "give shorter names and a shorter token"
        case "request-timeout": "repeat the command when the machine is less busy"
        case "internal-error": "find the error in the log of Lanyard and report it"
        default: nil
        }
    }
}
