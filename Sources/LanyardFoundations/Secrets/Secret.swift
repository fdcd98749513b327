import CLinux
import Glibc

/// Secret bytes: a token, a password, a key. Wiped when the last reference goes; cannot be printed, reflected or encoded.
///
/// Immutable once made, so a reference may cross queues. The bytes are lent to a closure. They are never copied into a `String`, `Data` or
/// array, because Swift does not wipe that storage.
package final class Secret: Sendable {
    // Written only in init, read-only afterwards.
    private nonisolated(unsafe) let storage: UnsafeMutableRawBufferPointer

    /// A secret of `count` bytes that `fill` writes; `fill` returns how many of them it used.
    ///
    /// - Throws: the error of `fill`. What it has written is wiped.
    package init<E: Error>(capacity: Int, filledBy fill: (UnsafeMutableRawBufferPointer) throws(E) -> Int) throws(E) {
        let block = UnsafeMutableRawBufferPointer.allocate(byteCount: max(capacity, 1), alignment: 1)
        let used: Int
        do {
            used = try fill(UnsafeMutableRawBufferPointer(rebasing: block[0..<capacity]))
        } catch {
            lanyard_wipe(block.baseAddress!, block.count)
            block.deallocate()
            throw error
        }
        precondition(used >= 0 && used <= capacity)
        storage = block
        count = used
    }

    /// Takes over a block that no other code frees. Its first `count` bytes are in use.
    init(adopting block: UnsafeMutableRawBufferPointer, count: Int) {
        precondition(block.count > 0 && count >= 0 && count <= block.count)
        storage = block
        self.count = count
    }

    /// A copy of `bytes`. The owner of `bytes` wipes them.
    package convenience init(copying bytes: UnsafeRawBufferPointer) {
        self.init(capacity: bytes.count) { room in
            room.copyMemory(from: bytes)
            return bytes.count
        }
    }

    /// How many bytes.
    package let count: Int

    /// Lends the bytes for the length of the call.
    ///
    /// - Throws: the error of `body`.
    package func withBytes<R, E: Error>(_ body: (UnsafeRawBufferPointer) throws(E) -> R) throws(E) -> R {
        try body(UnsafeRawBufferPointer(rebasing: UnsafeRawBufferPointer(storage)[0..<count]))
    }

    /// Wipes bytes that are not in a secret, such as input that may hold one.
    package static func wipe(_ bytes: UnsafeMutableRawBufferPointer) {
        if let start = bytes.baseAddress { lanyard_wipe(start, bytes.count) }
    }

    deinit {
        lanyard_wipe(storage.baseAddress!, storage.count)
        storage.deallocate()
    }
}

extension Secret: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    package var description: String { "<secret>" }
    package var debugDescription: String { "<secret>" }
    package var customMirror: Mirror { Mirror(self, children: []) }
}

extension Secret: Equatable {
    /// Same bytes; the time does not depend on where they differ.
    package static func == (left: Secret, right: Secret) -> Bool { right.withBytes { left.equals($0) } }

    /// The same for bytes that are in no secret, such as a field's value.
    package func equals(_ bytes: UnsafeRawBufferPointer) -> Bool {
        guard bytes.count == count else { return false }
        var difference: UInt8 = 0
        withBytes { own in for index in 0..<own.count { difference |= own[index] ^ bytes[index] } }
        return difference == 0
    }
}
