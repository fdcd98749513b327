import TestSupport

/// The admin API of a running Lanyard, at its unix socket; each call has a connection of its own.
struct AdminClient: Sendable {
    let endpoint: RawEndpoint

    /// One call; its response, whatever it says.
    ///
    /// - Throws: `TestFailure` when no response comes, such as when the process is killed in that time.
    func ask(
        _ method: String, _ path: String, _ body: String? = nil
    ) async throws -> RawMessage {
        try await RawClient.ask(endpoint, method, path, body: body)
    }

    /// One call that must succeed; its JSON.
    @discardableResult
    func call(_ method: String, _ path: String, _ body: String? = nil) async throws -> JSON {
        let response = try await ask(method, path, body)
        guard (200..<300).contains(response.status) else {
            throw TestFailure("\(method) \(path): \(response.status) \(response.bodyText)")
        }
        return response.body.isEmpty ? .null : try response.json
    }

    func status() async throws -> AdminStatus { AdminStatus(json: try await call("GET", "/v1/status")) }

    /// The body of a login with email and password.
    static func password(_ email: String, _ password: String) -> String {
        #"{"credential":{"email_password":{"email":"\#(email)","password":"\#(password)"}}}"#
    }
}

/// What `GET /v1/status` says of users.
struct AdminStatus: Sendable {
    struct User: Sendable, CustomStringConvertible {
        let name: String
        /// The service's id of the account.
        let accountID: String?
        /// `active`, `inactive` or `logged_out`.
        let state: String
        /// One of the eight states.
        let session: String
        let generation: Int
        let lastError: String?

        /// Authenticated as architecture-control.md 5.1 shows it.
        var isIn: Bool { state != "logged_out" }
        var description: String {
            "\(name): \(state), \(session), generation \(generation), \(lastError ?? "no error")"
        }
    }

    let active: String?
    let users: [User]

    init(json: JSON) {
        active = json["active_user"].string
        users = json["users"].array.map {
            User(
                name: $0["name"].string ?? "", accountID: $0["user_id"].string, state: $0["state"].string ?? "",
                session: $0["session"].string ?? "", generation: $0["generation"].int ?? -1,
                lastError: $0["last_error"].string)
        }
    }

    subscript(name: String) -> User? { users.first { $0.name == name } }
}
