import Glibc

/// A file descriptor with exactly one owner. Letting the value go closes it.
package struct OwnedDescriptor: ~Copyable, Sendable {
    /// The number, lent: never closed by who reads it here.
    package let raw: CInt

    /// Takes over a descriptor that nobody else closes.
    package init(taking raw: CInt) { self.raw = raw }

    /// Gives the number away; whoever receives it closes it.
    package consuming func release() -> CInt {
        let raw = self.raw
        discard self
        return raw
    }

    deinit { close(raw) }
}
