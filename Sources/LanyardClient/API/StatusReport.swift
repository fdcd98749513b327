import LanyardFoundations

/// `GET /v1/status` as a command reads it.
package struct StatusReport: Equatable, Sendable {
    /// A bound address with its listener's name.
    package struct Listener: Equatable, Sendable {
        package let name: String
        package let address: String
    }

    package let version: String
    package let uptimeSeconds: Int
    package let activeUser: String?
    private let places: Places
    package var listeners: [Listener] { places.listeners }
    /// Names of routes that do not verify their upstream.
    package var unverifiedRoutes: [String] { places.unverifiedRoutes }
    package let users: [UserReport]
    /// Shown or not.
    package let counts: Counts
    /// A shutdown in progress; nil: none.
    package let stop: Stop?
    /// Why the store cannot be written; nil: it can.
    package let storeFailure: StoreFailure?
    /// The latest reload, if it has failed.
    package let failedReload: FailedReload?
    /// Calls to identity services without a response: `identity demo: the revocation has had no response of URL for 7 s`.
    package let slowCalls: [String]
    /// Certificates that end soon, or have ended.
    package let expiringCertificates: [Certificate]
    /// Logins that users have begun and not completed.
    package let logins: [Login]
    /// A limit that the machine has lowered; nil: none.
    package let loweredLimit: LoweredLimit?
    package let activity: StatusActivity

    private struct Places: Equatable, Sendable {
        let listeners: [Listener]
        let unverifiedRoutes: [String]
    }

    /// How many there are.
    package struct Counts: Equatable, Sendable {
        package let users: Int
        package let routes: Int
    }

    /// A login that waits for its user, in a browser.
    package struct Login: Equatable, Sendable {
        package let user: String
        /// Where a code is entered; nil: the login has none, or the service has not responded yet.
        package let uri: String?
        package let code: String?
        package let expiresAt: WallTime?

        /// What the user does, with the time that is left.
        package func instruction(now: WallTime) -> String {
            let end = expiresAt.map { " (ends in \(RelativeTime.text(seconds: Int($0.seconds - now.seconds))))" } ?? ""
            guard let uri, let code else { return "complete it in the browser that lanyard login has opened\(end)" }
            return "open \(uri) and enter \(code)\(end)"
        }
    }

    /// `limits.connections_max`, which two descriptors for each connection do not allow.
    package struct LoweredLimit: Equatable, Sendable {
        package let configured: Int
        package let effective: Int
        package let descriptorsMax: Int
    }

    /// A shutdown in progress.
    package struct Stop: Equatable, Sendable {
        package let areListenersClosed: Bool
        package let clientConnectionCount: Int
        package let secondsLeft: Int
    }

    /// A store that cannot be written.
    package struct StoreFailure: Equatable, Sendable {
        package let path: String
        package let since: WallTime
        package let error: String
    }

    /// A reload that has failed.
    package struct FailedReload: Equatable, Sendable {
        package let at: WallTime
        package let errors: [String]
    }

    /// A certificate with its owner and its file.
    package struct Certificate: Equatable, Sendable {
        package let owner: String
        /// nil: the certificate is another machine's.
        package let file: String?
        package let expiresAt: WallTime
    }

    /// nil: it is no status.
    package init?(_ json: JSONValue) {
        guard let version = json["version"]?.string else { return nil }
        self.version = version
        uptimeSeconds = json["uptime_seconds"]?.integer ?? 0
        activeUser = json["active_user"]?.string
        let listeners = (json["listeners"]?.elements ?? []).compactMap { listener -> Listener? in
            guard let name = listener["listener"]?.string, let address = listener["address"]?.string else { return nil }
            return Listener(name: name, address: address)
        }
        places = Places(
            listeners: listeners, unverifiedRoutes: (json["unverified_routes"]?.elements ?? []).compactMap(\.string))
        users = UserReport.list(json)
        counts = Counts(
            users: json["users_total"]?.integer ?? users.count,
            routes: json["routes_total"]?.integer ?? (json["routes"]?.elements ?? []).count)
        stop = json["stopping"].flatMap { stop in
            stop["seconds_left"]?.integer.map {
                Stop(
                    areListenersClosed: stop["listeners_closed"]?.bool == true,
                    clientConnectionCount: stop["client_connections"]?.integer ?? 0, secondsLeft: $0)
            }
        }
        storeFailure = json["store_failure"].flatMap { failure in
            guard let path = failure["path"]?.string, let since = failure["since"]?.time,
                let error = failure["error"]?.string
            else { return nil }
            return StoreFailure(path: path, since: since, error: error)
        }
        failedReload = json["failed_reload"].flatMap { reload in
            reload["at"]?.time.map {
                FailedReload(at: $0, errors: (reload["errors"]?.elements ?? []).compactMap(\.string))
            }
        }
        slowCalls = (json["slow_calls"]?.elements ?? []).compactMap { call in
            SlowCallText.text(call).map { "identity \(call["identity"]?.string ?? "-"): \($0)" }
        }
        expiringCertificates = (json["expiring_certificates"]?.elements ?? []).compactMap { certificate in
            guard let owner = certificate["certificate"]?.string, let time = certificate["expires_at"]?.time else {
                return nil
            }
            return Certificate(owner: owner, file: certificate["file"]?.string, expiresAt: time)
        }
        logins = (json["logins"]?.elements ?? []).compactMap { login in
            login["name"]?.string.map {
                Login(
                    user: $0, uri: login["verification_uri"]?.string, code: login["user_code"]?.string,
                    expiresAt: login["expires_at"]?.time)
            }
        }
        loweredLimit = json["lowered_limit"].flatMap { limit in
            guard let configured = limit["configured"]?.integer, let effective = limit["effective"]?.integer,
                let descriptorsMax = limit["descriptors_max"]?.integer
            else { return nil }
            return LoweredLimit(configured: configured, effective: effective, descriptorsMax: descriptorsMax)
        }
        activity = StatusActivity(json)
    }
}

/// One user of the status and of `GET /v1/users`.
package struct UserReport: Equatable, Sendable {
    package let name: String
    package let identity: String
    /// The account's id at the identity service.
    package let accountID: String?
    /// `active`, `inactive` or `logged_out`.
    package let state: String
    /// The state in detail, such as `valid`.
    package let session: String
    package let accessTokenExpiry: WallTime?
    /// When the session ends if nothing renews it.
    package let refreshTokenExpiry: WallTime?
    package let nextRefreshAt: WallTime?
    package let lastError: String?
    /// What to do about the latest error, as a sentence without its period; nil: nothing is known.
    package let remedy: String?
    /// What is at fault (errors.md 5.1); nil: unknown.
    package let cause: String?
    /// Since when each call has failed; nil: the latest one has succeeded.
    package let failingSince: WallTime?
    /// `nobody`, `operator` or `user`: who must act.
    package let action: String
    /// The call that has had no response for some seconds: what it is, its URL and how long; nil: none.
    package let slowCall: String?
    /// The access tokens that routes ask for besides.
    package let tokens: [VariantReport]

    /// nil: it is no user.
    package init?(_ json: JSONValue) {
        guard let name = json["name"]?.string, let identity = json["identity"]?.string,
            let state = json["state"]?.string
        else { return nil }
        self.name = name
        self.identity = identity
        self.state = state
        accountID = json["user_id"]?.string
        session = json["session"]?.string ?? "-"
        accessTokenExpiry = json["access_token_expires_at"]?.time
        refreshTokenExpiry = json["refresh_token_expires_at"]?.time
        nextRefreshAt = json["next_refresh_at"]?.time
        lastError = json["last_error"]?.string
        remedy = json["remedy"]?.string
        cause = json["cause"]?.string
        failingSince = json["failing_since"]?.time
        action = json["action"]?.string ?? "nobody"
        slowCall = json["call"].flatMap(SlowCallText.text)
        tokens = (json["tokens"]?.elements ?? []).compactMap(VariantReport.init)
    }

    /// The member `users`.
    package static func list(_ json: JSONValue) -> [UserReport] {
        (json["users"]?.elements ?? []).compactMap(UserReport.init)
    }
}

/// An access token that routes ask for besides the one of a login.
package struct VariantReport: Equatable, Sendable {
    /// The first route that asks for it.
    package let route: String
    /// `audience orders`.
    package let text: String
    package let state: String
    package let expiry: WallTime?
    package let nextRefreshAt: WallTime?
    package let lastError: String?

    /// nil: it is none.
    package init?(_ json: JSONValue) {
        guard let route = json["route"]?.string, let state = json["state"]?.string else { return nil }
        let parts =
            [("audience", json["audience"]?.string.map { [$0] })]
            + ["resource", "scopes"].map { ($0, json[$0]?.elements.compactMap(\.string)) }
        text = parts.compactMap { name, values in
            values.flatMap { $0.isEmpty ? nil : "\(name) \($0.joined(separator: " "))" }
        }
        .joined(separator: ", ")
        self.route = route
        self.state = state
        expiry = json["access_token_expires_at"]?.time
        nextRefreshAt = json["next_refresh_at"]?.time
        lastError = json["last_error"]?.string
    }
}

/// A call without a response, as operators read it.
private enum SlowCallText {
    /// nil: it is no call.
    static func text(_ call: JSONValue) -> String? {
        call["kind"]?.string.map { kind in
            let url = call["url"]?.string.map { " of \($0)" } ?? ""
            let name = kind.split(separator: "_").joined(separator: " ")
            return "the \(name) has had no response\(url) for \(call["age_seconds"]?.integer ?? 0) s"
        }
    }
}
