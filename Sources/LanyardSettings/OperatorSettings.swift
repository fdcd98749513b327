/// `admin:` of the configuration (architecture-control.md 4.2): the API that logs users in and out and switches the active user.
package struct AdminSettings: Equatable, Sendable {
    /// nil: the default socket, `admin.sock` in `folder`.
    package var address: ListenerSettings.Address?
    /// The folder of the default socket; created if it is missing. nil: this process has no folder for it.
    package var folder: String?
    /// The file with the bearer token of calls over TCP; never nil for a TCP address.
    package var tokenFile: String?
    /// `expose_tokens`: access tokens may be asked for.
    package var exposesTokens = false

    package init(address: ListenerSettings.Address? = nil, folder: String? = nil, tokenFile: String? = nil) {
        self.address = address
        self.folder = folder
        self.tokenFile = tokenFile
    }

    /// The folder of the default socket: systemd's runtime folder, root's, or that of the login session.
    package static func defaultFolder(environment: [String: String], uid: UInt32) -> String? {
        // systemd separates several folders with colons.
        if let first = environment["RUNTIME_DIRECTORY"]?.split(separator: ":").first, first.hasPrefix("/") {
            return String(first)
        }
        if uid == 0 { return "/run/lanyard" }
        guard let session = environment["XDG_RUNTIME_DIR"], session.hasPrefix("/") else { return nil }
        return session + "/lanyard"
    }

    /// Where a command looks for the default socket: the folder of its own user, but `/run/lanyard` in place of that of a login session if
    /// only the former is in use. A service runs as another Unix user than who asks for its state.
    package static func likelyFolder(
        environment: [String: String], uid: UInt32, exists: (String) -> Bool
    ) -> String {
        let service = "/run/lanyard"
        guard let own = defaultFolder(environment: environment, uid: uid) else { return service }
        guard own == environment["XDG_RUNTIME_DIR"].map({ $0 + "/lanyard" }) else { return own }
        return exists(own + "/admin.sock") || !exists(service) ? own : service
    }
}

/// `health:` of the configuration (architecture-control.md 7.1): the listener of probes and metrics.
package struct HealthSettings: Equatable, Sendable {
    /// Where the health listener is bound.
    package var address = ListenerSettings.Address.tcp(host: "127.0.0.1", port: 7401)
    /// Hosts that a request may name besides IP addresses and localhost, as they are configured: `host` or `host:port`.
    package var allowedHosts: [String] = []
    /// `/metrics` has series of each user; else their sums.
    package var metricsPerUser = true
    /// `/metrics` has series of each route; else their sums.
    package var metricsPerRoute = true

    package init() {}
}
