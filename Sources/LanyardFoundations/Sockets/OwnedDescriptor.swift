import Glibc

/// A file descriptor with exactly one owner. The end of the value closes it.
package struct OwnedDescriptor: ~Copyable, Sendable {
    /// The number, lent: a caller that reads it here never closes it.
    package let raw: CInt

    /// Takes over a descriptor that no other code closes.
    package init(taking raw: CInt) { self.raw = raw }

    /// Gives the number away. The receiver closes it.
    package consuming func release() -> CInt {
        let raw = self.raw
        discard self
        return raw
    }

    deinit { close(raw) }
}
