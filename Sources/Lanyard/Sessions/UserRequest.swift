/// What a person asks for, by name.
package enum UserRequest: Sendable {
    /// Logs in somebody who gets a name of its own.
    case add(name: String, identity: String, GivenCredential)
    /// Logs in somebody who has a name: with what is given, else with the configured credential.
    case login(String, GivenCredential?)
    /// Routes without a user of their own follow this one from now on.
    case activate(String)
    /// A new access token, now.
    case refresh(String)
    /// Ends the session here, then at the service.
    case logOut(String)
    /// Forgets the user; a session that still lives is ended at the service.
    case remove(String)
}
