import LanyardRequestPath
import LanyardSessionInterface
import LanyardSettings

/// An operation of the admin API, read from method and path (architecture.md 7.4).
package enum AdminCall: Equatable, Sendable {
    case status
    case users
    case user(String)
    case addUser
    case logIn(String)
    case activate(String)
    case refresh(String)
    case logOut(String)
    case remove(String)
    case shutdown
    case link(String)
    case deleteAccount(String)
    case customData(String)
    case token(String)
    case account(String, AdminAccountCall)
    case emailPassword(identity: String, EmailPasswordVerb)

    /// Whether the call changes state, or shows a token. Such a call gets an audit line.
    var isAudited: Bool {
        switch self {
        case .status, .users, .user, .customData: false
        case .account(_, let call): call.changesState
        default: true
        }
    }

    /// Whether the call waits for an identity service, up to the service's time limits. A logout does not count: it waits 5 s at most.
    var waitsForIdentityService: Bool {
        switch self {
        case .addUser, .logIn, .refresh, .link, .deleteAccount, .customData, .token, .account, .emailPassword: true
        case .status, .users, .user, .activate, .logOut, .remove, .shutdown: false
        }
    }

    /// Whether its body has the arguments of a function.
    var isFunction: Bool { if case .account(_, .function) = self { true } else { false } }

    /// Its name in the audit line.
    var auditName: String {
        switch self {
        case .status: "status"
        case .users: "users"
        case .user: "user"
        case .addUser: "add"
        case .logIn: "login"
        case .activate: "activate"
        case .refresh: "refresh"
        case .logOut: "logout"
        case .remove: "remove"
        case .shutdown: "shutdown"
        case .link: "link"
        case .deleteAccount: "delete_account"
        case .customData: "custom_data"
        case .token: "token"
        case .account(_, let call): call.auditName
        case .emailPassword(_, let verb): "email_password." + verb.rawValue
        }
    }

    /// The user that the path names.
    var userName: String? {
        switch self {
        case .user(let name), .logIn(let name), .activate(let name), .refresh(let name), .logOut(let name),
            .remove(let name), .link(let name), .deleteAccount(let name), .customData(let name), .token(let name),
            .account(let name, _):
            name
        case .status, .users, .addUser, .shutdown, .emailPassword: nil
        }
    }

    enum Parsed: Equatable {
        case call(AdminCall)
        /// The path exists, but not with this method.
        case methodNotAllowed(allow: String)
        /// The path segment for the user's name is not a valid name.
        case noSuchUser
        /// The same for an identity's name.
        case noSuchIdentity
        /// Another path segment cannot be used; the message names it.
        case invalid(String)
        case noRoute
    }

    /// - Parameter path: without query. Percent escapes are decoded in the name of a function only, because no other valid
    ///   name needs one.
    static func read(_ method: RequestHead.Method, _ path: Bytes) -> Parsed {
        let segments = path.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false).map {
            String(decoding: $0, as: UTF8.self)
        }
        guard segments.count > 2, segments[0].isEmpty, segments[1] == "v1" else { return .noRoute }
        let rest = Array(segments[2...])
        switch (rest.count, rest[0]) {
        case (1, "status"): return select(method, get: .status)
        case (1, "users"): return select(method, get: .users, post: .addUser)
        case (1, "shutdown"): return select(method, post: .shutdown)
        case (2..., "users"): return readUser(method, rest[1], Array(rest[2...]))
        case (4, "identities") where rest[2] == "email-password":
            guard let verb = EmailPasswordVerb(rawValue: rest[3]) else { return .noRoute }
            guard ConfiguredName.isValid(rest[1]) else { return .noSuchIdentity }
            return select(method, post: .emailPassword(identity: rest[1], verb))
        default: return .noRoute
        }
    }

    /// - Parameter rest: the segments after the user's name.
    private static func readUser(_ method: RequestHead.Method, _ name: String, _ rest: [String]) -> Parsed {
        let parsed: Parsed
        switch (rest.count, rest.first) {
        case (0, _): parsed = select(method, get: .user(name), delete: .remove(name))
        case (1, "login"): parsed = select(method, post: .logIn(name))
        case (1, "activate"): parsed = select(method, post: .activate(name))
        case (1, "refresh"): parsed = select(method, post: .refresh(name))
        case (1, "logout"): parsed = select(method, post: .logOut(name))
        case (1, "link"): parsed = select(method, post: .link(name))
        case (1, "custom-data"): parsed = select(method, get: .customData(name))
        case (1, "token"): parsed = select(method, get: .token(name))
        case (1, "profile"): parsed = select(method, get: .account(name, .profile))
        case (1, "api-keys"):
            parsed = select(method, get: .account(name, .apiKeys), post: .account(name, .createAPIKey))
        case (2...3, "api-keys"): parsed = readAPIKey(method, name, rest[1], rest.count == 3 ? rest[2] : nil)
        case (2, "functions"): parsed = readFunction(method, name, rest[1])
        default: return .noRoute
        }
        return ConfiguredName.isValid(name) || parsed == .noRoute ? parsed : .noSuchUser
    }

    private static func readAPIKey(
        _ method: RequestHead.Method, _ name: String, _ id: String, _ verb: String?
    ) -> Parsed {
        let call: Parsed
        switch verb {
        case nil: call = select(method, get: .account(name, .apiKey(id)), delete: .account(name, .deleteAPIKey(id)))
        case "enable": call = select(method, post: .account(name, .enableAPIKey(id)))
        case "disable": call = select(method, post: .account(name, .disableAPIKey(id)))
        default: return .noRoute
        }
        guard AccountCall.isValidAPIKeyID(id) else {
            return .invalid("the id of an API key is one of [A-Za-z0-9_-]{1,64}")
        }
        return call
    }

    /// The name of a function may have any characters, percent-encoded in the path.
    private static func readFunction(_ method: RequestHead.Method, _ name: String, _ segment: String) -> Parsed {
        guard let function = PercentEncoding.decode(segment), 1...functionNameBytesMax ~= function.utf8.count else {
            return .invalid(
                "the name of a function is percent-encoded UTF-8 of at most \(functionNameBytesMax) bytes")
        }
        return select(method, post: .account(name, .function(function)))
    }

    private static let functionNameBytesMax = 256

    private static func select(
        _ method: RequestHead.Method, get: AdminCall? = nil, post: AdminCall? = nil, delete: AdminCall? = nil
    ) -> Parsed {
        let call: AdminCall? =
            switch method {
            case .get, .head: get
            case .post: post
            case .delete: delete
            default: nil
            }
        if let call { return .call(call) }
        let allowed = [get == nil ? nil : "GET, HEAD", post == nil ? nil : "POST", delete == nil ? nil : "DELETE"]
        return .methodNotAllowed(allow: allowed.compactMap(\.self).joined(separator: ", "))
    }
}
