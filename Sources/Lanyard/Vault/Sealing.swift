/// How the store's text becomes a file that only who has the key can read or change.
package protocol Sealing: AnyObject, Sendable {
    /// The sealed form: new with every call, and no secret.
    func seal(_ text: UnsafeRawBufferPointer) throws(SealingError) -> [UInt8]

    /// The text again, bit for bit.
    func open(_ sealed: UnsafeRawBufferPointer) throws(SealingError) -> Secret
}

/// Why bytes cannot be sealed or opened.
package enum SealingError: Error, Equatable, Sendable {
    /// Made with another key or passphrase.
    case wrongKey
    /// Made with a passphrase, and there is a key; or the other way round.
    case otherKind(isPassphrase: Bool)
    /// Not what was written: in plain words.
    case damaged(String)
    /// Written by a later release, in this version of the format.
    case newerVersion(Int)
    /// Parameters beyond what is ever written: in plain words.
    case unfit(String)
    /// A primitive failed: its name. Memory has run out, or the library is not what it should be.
    case failed(String)
}
