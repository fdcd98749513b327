/// Reports changes of the file of a user's configured credential, so that a refused user can try again.
package protocol CredentialWatch: AnyObject, Sendable {
    /// Begins to watch the file that `login` names. `onChange` is called on any queue, within 5 s of each change of the
    /// file's content. A new file and a swapped symlink are changes; the start is not. A login without a file has no
    /// changes.
    func start(_ login: UserSettings.Login, _ onChange: @escaping @Sendable () -> Void)

    /// Ends the watching. A late call of `onChange` may still come.
    func stop()
}
