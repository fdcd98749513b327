/// Why the store could not be read or written. The file is as it was before.
package struct StoreError: Error, Equatable, Sendable {
    package enum Kind: Equatable, Sendable {
        /// Another process holds the lock; asked again by the store itself until its patience ends.
        case busy
        /// A system call failed; the value is `errno`.
        case system(CInt)
        /// The file is there and cannot be opened: each is told apart for the operator (architecture.md 4.7).
        case wrongKey, damaged, newerVersion, unsafeMode, foreignOwner, notRegular
        /// The key, the passphrase or the file's own parameters cannot be used.
        case unfit
    }

    package var kind: Kind
    /// What, where and how to mend it; names the path; no secret.
    package var message: String

    package init(_ kind: Kind, message: String) {
        self.kind = kind
        self.message = message
    }
}
