/// Why the store could not be read or written. The file is unchanged.
package struct StoreError: Error, Equatable, Sendable {
    package enum Kind: Equatable, Sendable {
        /// Another process holds the lock. The store itself retries until its time limit.
        case busy
        /// A system call failed; the value is `errno`.
        case system(CInt)
        /// The file exists and cannot be opened; the operator is told which reason applies (architecture.md 4.7).
        case wrongKey, damaged, newerVersion, unsafeMode, foreignOwner, notRegular
        /// The key, the passphrase or the file's own parameters cannot be used.
        case unfit
    }

    package var kind: Kind
    /// The problem, the path and the remedy; no secret.
    package var message: String

    package init(_ kind: Kind, message: String) {
        self.kind = kind
        self.message = message
    }
}
