import LanyardRequestPath
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

    /// Whether the call changes state. Such a call gets an audit line.
    var changesState: Bool {
        switch self {
        case .status, .users, .user: false
        default: true
        }
    }

    /// Whether the call waits for an identity service, up to the service's time limits. A logout does not count: it waits 5 s at most.
    var waitsForIdentityService: Bool {
        switch self {
        case .addUser, .logIn, .refresh: true
        default: false
        }
    }

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
        }
    }

    /// The user that the path names.
    var userName: String? {
        switch self {
        case .user(let name), .logIn(let name), .activate(let name), .refresh(let name), .logOut(let name),
            .remove(let name):
            name
        case .status, .users, .addUser, .shutdown: nil
        }
    }

    enum Parsed: Equatable {
        case call(AdminCall)
        /// The path exists, but not with this method.
        case methodNotAllowed(allow: String)
        /// The path segment for the user's name is not a valid name.
        case noSuchUser
        case noRoute
    }

    /// - Parameter path: without query. Percent escapes are not decoded, because no valid name needs one.
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
        case (2...3, "users"):
            let verbs: [String: (String) -> AdminCall] = [
                "login": logIn, "activate": activate, "refresh": refresh, "logout": logOut,
            ]
            let verb = rest.count == 3 ? verbs[rest[2]] : nil
            guard rest.count == 2 || verb != nil else { return .noRoute }
            guard ConfiguredName.isValid(rest[1]) else { return .noSuchUser }
            if let verb { return select(method, post: verb(rest[1])) }
            return select(method, get: .user(rest[1]), delete: .remove(rest[1]))
        default: return .noRoute
        }
    }

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
