/// What a request of the admin API asks for, read from its method and path (architecture.md 7.4).
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

    /// Something is different afterwards: worth a line of the audit.
    var changesState: Bool {
        switch self {
        case .status, .users, .user: false
        default: true
        }
    }

    /// It may wait as long as the identity service likes; a logout waits 5 s at most.
    var waitsForIdentityService: Bool {
        switch self {
        case .addUser, .logIn, .refresh: true
        default: false
        }
    }

    /// Its word in the audit.
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
        /// The path has other methods.
        case methodNotAllowed(allow: String)
        /// The path has a place for a user's name, and what stands there is none.
        case noSuchUser
        case noRoute
    }

    /// - Parameter path: without query, percent escapes as they came: no name of ours needs one.
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
            guard AdminBody.isName(rest[1]) else { return .noSuchUser }
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
