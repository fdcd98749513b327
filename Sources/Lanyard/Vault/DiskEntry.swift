/// An entry at a name, or the folder itself: the facts that decide whether it may be trusted.
package struct DiskEntry: Equatable, Sendable {
    package enum Kind: Equatable, Sendable { case file, folder, link, other }

    package var kind: Kind
    /// The uid that owns it.
    package var owner: UInt32
    /// Permissions: the twelve lower bits of `st_mode`.
    package var mode: UInt32
    /// In bytes.
    package var size: Int

    package init(_ kind: Kind, owner: UInt32, mode: UInt32, size: Int = 0) {
        self.kind = kind
        self.owner = owner
        self.mode = mode
        self.size = size
    }
}

/// A file as it was read: what it is, and its bytes.
package struct DiskContent: Equatable, Sendable {
    package var entry: DiskEntry
    /// nil: not read, because it is not a regular file or is too large, or because of `openError`. Sealed bytes are not secret.
    package var bytes: [UInt8]?
    /// `errno` of an `open` that was refused to this process.
    package var openError: CInt?

    package init(_ entry: DiskEntry, bytes: [UInt8]?, openError: CInt? = nil) {
        self.entry = entry
        self.bytes = bytes
        self.openError = openError
    }
}
