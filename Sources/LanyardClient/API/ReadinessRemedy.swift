/// What to do about the reasons of the health pages (docs/use/monitoring.md).
package enum ReadinessRemedy {
    /// For a reason that this version does not know.
    package static let unknown = "docs/use/monitoring.md explains the reasons"

    /// What a reason means for a user, behind its name; nil: this version does not know it.
    ///
    /// - Parameter cause: what is at fault by the latest error; nil: unknown.
    package static func meaning(_ reason: String, cause: String? = nil) -> String? {
        switch (reason, cause ?? "") {
        case ("identity_unreachable", "no_response"), ("identity_unreachable", ""):
            "has no valid token, because the identity service does not respond"
        case ("credential_refused", "credential"), ("credential_refused", ""):
            "cannot log in, because its credential was refused"
        case ("credential_refused", "client"): "has no token, because its client was refused"
        case ("credential_refused", "file"): "cannot log in, because a file cannot be used"
        case (let reason, _): meaning(of: reason)
        }
    }

    private static func meaning(of reason: String) -> String? {
        switch reason {
        case "logging_in": "has no token yet, because its first login is in progress"
        case "logged_out": "is logged out"
        case "login_required": "has no session: the last one has ended"
        case "outcome_unknown": "has no session: the response to a refresh was lost"
        case "credential_refused": "has no token, because what it asks for was refused"
        case "account_in_use": "cannot log in, because another user has the account"
        case "identity_unreachable": "has no valid token, because the identity service gives none"
        case "identity_gone": "has no valid token, because the identity service says that the app is gone (410)"
        case "variant_refused":
            "has no token for a route or broker, because the service refuses what its token asks for"
        case "audience_mismatch":
            "has no token for a route or broker, because the service gives one for another audience"
        case "refresh_failing": "has a valid token that is not renewed"
        default: nil
        }
    }

    /// What to do about a refused credential.
    package static func credential(_ user: String) -> String {
        text("credential_refused", user: user) ?? unknown
    }

    /// A sentence without its period; nil: the reason needs no action, or this version does not know it.
    ///
    /// - Parameters:
    ///   - reason: such as `logged_out`.
    ///   - user: the name of the user that the check is about.
    package static func text(_ reason: String, user: String) -> String? {
        switch reason {
        case "login_required", "logged_out", "outcome_unknown": "lanyard login \(user)"
        case "credential_refused":
            "correct the credential of \(user), whose file is read again by itself; after a repair or a confirmation of the "
                + "account: lanyard login \(user)"
        case "no_active_user": "lanyard login NAME, or lanyard use NAME for a user that is logged in"
        case "identity_unreachable", "identity_gone", "logging_in": "lanyard status says why the last call failed"
        case "refresh_failing": "lanyard status says why and when the token ends; Lanyard retries until then if it can"
        case "variant_refused", "audience_mismatch":
            "check token of the routes of \(user), and what the server gives the client; then: lanyard refresh \(user)"
        case "account_in_use": "lanyard users shows which user has the account"
        case "store_failing": "make room, or mend the folder of store.path; lanyard status says why"
        case "memory_only": "configure store.path, if logins must outlive a restart"
        case "clock_off": "set the clock that is wrong: this machine's or the identity service's"
        case "heartbeat_late": "restart Lanyard; keep its log and report it"
        case "draining": "wait for its end, at the latest after shutdown.drain_max and some seconds, and start it again"
        default: nil
        }
    }
}
