import LanyardRequestPath
import LanyardSettings

/// An operation of the admin API, read from method and path (architecture-control.md 7.4).
package enum AdminCall: Equatable, Sendable {
    case openAPI
    case status(AdminPage)
    case users(AdminPage)
    case user(String)
    case addUser
    case logIn(String)
    /// Of a login in a browser, by its id.
    case loginResult(String, id: String)
    case cancelLogin(String, id: String)
    case completeLogin(String, id: String)
    case activate(String)
    case refresh(String)
    case logOut(String)
    case remove(String)
    case shutdown
    case reload
    case logLevel
    case setLogLevel
    /// The latest lines of the log about a route.
    case log(route: String)
    case link(String)
    case deleteAccount(String)
    case customData(String)
    /// nil: the session's own access token, with those of all variants.
    case token(String, TokenVariant? = nil)
    case account(String, AdminAccountCall)
    case emailPassword(identity: String, EmailPasswordVerb)

    /// Whether the call changes state, or shows a token. Such a call gets an audit line.
    var isAudited: Bool {
        switch self {
        case .openAPI, .status, .users, .user, .customData, .logLevel, .log, .loginResult: false
        case .account(_, let call): call.changesState
        default: true
        }
    }

    /// Whether the call waits for an identity service, up to the service's time limits, or for the files of the configuration. A logout
    /// does not count: it waits 5 s at most.
    var waitsForOthers: Bool {
        switch self {
        case .addUser, .logIn, .refresh, .link, .deleteAccount, .customData, .token, .account, .emailPassword, .reload:
            true
        case .openAPI, .status, .users, .user, .activate, .logOut, .remove, .shutdown, .logLevel, .setLogLevel,
            .log, .loginResult, .cancelLogin, .completeLogin:
            false
        }
    }

    /// Whether its body has the arguments of a function.
    var isFunction: Bool { if case .account(_, .function) = self { true } else { false } }

    /// Its name in the audit line.
    var auditName: String {
        switch self {
        case .openAPI: "openapi"
        case .status: "status"
        case .users: "users"
        case .user: "user"
        case .addUser: "add"
        case .logIn: "login"
        case .loginResult: "login_result"
        case .cancelLogin: "cancel_login"
        case .completeLogin: "complete_login"
        case .activate: "activate"
        case .refresh: "refresh"
        case .logOut: "logout"
        case .remove: "remove"
        case .shutdown: "shutdown"
        case .reload: "reload"
        case .logLevel: "log_level"
        case .setLogLevel: "set_log_level"
        case .log: "log"
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
            .remove(let name), .link(let name), .deleteAccount(let name), .customData(let name), .token(let name, _),
            .account(let name, _), .loginResult(let name, _), .cancelLogin(let name, _), .completeLogin(let name, _):
            name
        case .openAPI, .status, .users, .addUser, .shutdown, .reload, .logLevel, .setLogLevel, .log, .emailPassword:
            nil
        }
    }

    enum Parsed: Equatable {
        case call(AdminCall)
        /// The path exists, but not with this method.
        case methodNotAllowed(allow: String)
        /// The call takes no query.
        case queryNotTaken
        /// The query of a removal is another one than the only one it takes.
        case accountQueryInvalid
        case unreadable(PathError)
    }

    /// Why a path names no call. A type of its own, because the case decides the status.
    enum PathError: Error, Equatable {
        /// The path segment for the user's name is not a valid name.
        case noSuchUser
        /// The same for an identity's name.
        case noSuchIdentity
        /// Another path segment cannot be used; the message names it.
        case invalid(String)
        case noRoute
    }

    /// Reads a path by the table of routes. What the path names is checked before the method.
    ///
    /// - Parameters:
    ///   - path: without query.
    ///   - query: without its question mark; nil: there is none.
    static func read(_ method: RequestHead.Method, _ path: Bytes, query: Bytes? = nil) -> Parsed {
        let parsed = read(method, path)
        guard let query, case .call(let call) = parsed else { return parsed }
        do throws(PathError) {
            switch call {
            case .status: return .call(.status(try AdminPage(query: query, hasRoutes: true)))
            case .users: return .call(.users(try AdminPage(query: query, hasRoutes: false)))
            case .token(let name, _): return .call(.token(name, try AdminTokenQuery.read(query)))
            case .remove(let name):
                return query.elementsEqual("account=delete".utf8) ? .call(.deleteAccount(name)) : .accountQueryInvalid
            default: return .queryNotTaken
            }
        } catch {
            return .unreadable(error)
        }
    }

    private static func read(_ method: RequestHead.Method, _ path: Bytes) -> Parsed {
        let segments = path.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false).map {
            String(decoding: $0, as: UTF8.self)
        }
        guard let (routes, encoded) = AdminRoute.matching(segments) else { return .unreadable(.noRoute) }
        var values: [String] = []
        do throws(PathError) {
            for (parameter, segment) in encoded { values.append(try parameter.decode(segment)) }
        } catch {
            return .unreadable(error)
        }
        let wanted = method == .head ? .get : method
        if let route = routes.first(where: { $0.method == wanted }) { return .call(route.call(values)) }
        let words = [(RequestHead.Method.get, "GET, HEAD"), (.post, "POST"), (.delete, "DELETE")]
        let allowed = words.filter { word in routes.contains { $0.method == word.0 } }
        return .methodNotAllowed(allow: allowed.map(\.1).joined(separator: ", "))
    }
}
