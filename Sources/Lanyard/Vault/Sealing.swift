/// Turns the store's text into a file that can be read or changed only with the key.
package protocol Sealing: AnyObject, Sendable {
    /// The sealed form, which differs with every call. It is not secret.
    func seal(_ text: UnsafeRawBufferPointer) throws(SealingError) -> [UInt8]

    /// The original text, bit for bit.
    func open(_ sealed: UnsafeRawBufferPointer) throws(SealingError) -> Secret
}

/// Why bytes cannot be sealed or opened.
package enum SealingError: Error, Equatable, Sendable {
    /// Sealed with another key or passphrase.
    case wrongKey
    /// Sealed with a passphrase while a key is configured, or the reverse.
    case otherKind(isPassphrase: Bool)
    /// The bytes differ from what was written; the text says how.
    case damaged(String)
    /// Written by a later release; the value is its format version.
    case newerVersion(Int)
    /// Parameters that Lanyard never writes; the text names them.
    case unfit(String)
    /// A primitive failed; the value is its name. Memory is short, or the library is damaged.
    case failed(String)
}
