/// What to do about the reasons of the health pages (docs/use/operating.md).
package enum ReadinessRemedy {
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
