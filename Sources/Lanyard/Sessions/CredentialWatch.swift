/// Tells when the file of a user's configured credential has changed: what lets a refused user try again.
package protocol CredentialWatch: AnyObject, Sendable {
    /// Begins to watch the file that `login` names. `onChange` is called on whatever queue, within 5 s of each change of its content,
    /// its appearance included (symlink swaps too), and not at the start. A login without a file is never told of.
    func start(_ login: UserSettings.Login, _ onChange: @escaping @Sendable () -> Void)

    /// Ends the watching. A late call of `onChange` may still come.
    func stop()
}
