import Glibc
import LanyardRequestPath

/// Memory between two pages that no code may touch: a read past either end ends the process at once, with or without a sanitizer.
final class GuardedRoom {
    private static let pageBytes = 4096

    private let start: UnsafeMutableRawPointer
    private let count: Int

    /// - Parameter capacity: bytes of the longest run that is put here, rounded up to whole pages.
    init(capacity: Int) {
        count = (capacity + Self.pageBytes - 1) / Self.pageBytes * Self.pageBytes
        let whole = mmap(nil, count + 2 * Self.pageBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
        guard let whole, whole != UnsafeMutableRawPointer(bitPattern: -1) else {
            fatalError("no memory for a fuzz room")
        }
        start = whole + Self.pageBytes
        guard mprotect(start, count, PROT_READ | PROT_WRITE) == 0 else { fatalError("a fuzz room cannot be opened") }
    }

    deinit { munmap(start - Self.pageBytes, count + 2 * Self.pageBytes) }

    /// A copy whose first byte stands behind the forbidden page.
    func atStart(_ bytes: Bytes) -> Bytes { copy(bytes, to: start) }

    /// A copy whose last byte stands before the forbidden page.
    func atEnd(_ bytes: Bytes) -> Bytes { copy(bytes, to: start + count - bytes.count) }

    /// Room for `bytes.count` bytes to be changed in place, filled with them; it ends at the forbidden page.
    func mutable(_ bytes: Bytes) -> UnsafeMutableRawBufferPointer {
        UnsafeMutableRawBufferPointer(mutating: UnsafeRawBufferPointer(atEnd(bytes)))
    }

    private func copy(_ bytes: Bytes, to place: UnsafeMutableRawPointer) -> Bytes {
        precondition(bytes.count <= count)
        if let source = bytes.baseAddress { memcpy(place, source, bytes.count) }
        return Bytes(start: place.assumingMemoryBound(to: UInt8.self), count: bytes.count)
    }
}
