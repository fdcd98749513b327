/// A request of an operator, by user name.
package enum UserRequest: Sendable {
    /// Adds a user and logs it in.
    case add(name: String, identity: String, GivenCredential)
    /// Logs in a known user: with the given credential, otherwise with the configured one.
    case login(String, GivenCredential?)
    /// Routes without a user of their own follow this one from now on.
    case activate(String)
    /// A new access token, now.
    case refresh(String)
    /// Ends the session here, then at the service.
    case logOut(String)
    /// Forgets the user. A live session is revoked at the service.
    case remove(String)
}
