import CLinux

/// Secret bytes that grow: a response of an identity service, the body of a login.
///
/// Every block is wiped before it is freed, outgrown blocks included. `seal()` turns the bytes into a `Secret` without a copy.
package struct SecretBuffer: ~Copyable {
    private var block: UnsafeMutableRawBufferPointer
    /// Bytes in use.
    package private(set) var count = 0

    /// An empty buffer with room for `capacity` bytes before it must grow.
    package init(capacity: Int = 256) {
        block = .allocate(byteCount: max(capacity, 1), alignment: 1)
    }

    deinit { Self.release(block) }

    /// Adds a copy of `bytes`.
    package mutating func append(_ bytes: UnsafeRawBufferPointer) {
        guard let source = bytes.baseAddress, bytes.count > 0 else { return }
        reserve(bytes.count)
        (block.baseAddress! + count).copyMemory(from: source, byteCount: bytes.count)
        count += bytes.count
    }

    /// Adds one byte.
    package mutating func append(_ byte: UInt8) {
        reserve(1)
        block[count] = byte
        count += 1
    }

    /// Adds text that is not secret.
    package mutating func append(_ text: String) {
        for byte in text.utf8 { append(byte) }
    }

    /// Removes all bytes and keeps the capacity.
    package mutating func removeAll() {
        lanyard_wipe(block.baseAddress!, count)
        count = 0
    }

    /// Lends the bytes for the length of the call.
    ///
    /// - Throws: the error of `body`.
    package borrowing func withBytes<R, E: Error>(_ body: (UnsafeRawBufferPointer) throws(E) -> R) throws(E) -> R {
        try body(UnsafeRawBufferPointer(rebasing: UnsafeRawBufferPointer(block)[0..<count]))
    }

    /// The bytes as an immutable secret: the secret takes over the block.
    package consuming func seal() -> Secret {
        let (block, count) = (self.block, self.count)
        discard self
        return Secret(adopting: block, count: count)
    }

    private mutating func reserve(_ more: Int) {
        guard block.count - count < more else { return }
        let grown = UnsafeMutableRawBufferPointer.allocate(byteCount: max(2 * block.count, count + more), alignment: 1)
        grown.copyMemory(from: UnsafeRawBufferPointer(rebasing: UnsafeRawBufferPointer(block)[0..<count]))
        Self.release(block)
        block = grown
    }

    private static func release(_ block: UnsafeMutableRawBufferPointer) {
        lanyard_wipe(block.baseAddress!, block.count)
        block.deallocate()
    }
}
