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

/// Reading of a file from its position on. Blocks as long as the file system does; a signal does not end it.
extension OwnedDescriptor {
    /// Reads until `room` is full or the file ends.
    ///
    /// - Parameter failure: makes the caller's error of `errno`.
    /// - Returns: bytes; fewer than `room` holds only at the end of the file.
    /// - Throws: the error that `failure` makes, if read(2) fails: the machine, the disk or the peer is at fault.
    package borrowing func read<Failure: Error>(
        into room: UnsafeMutableRawBufferPointer, failure: (CInt) -> Failure
    ) throws(Failure) -> Int {
        var count = 0
        while count < room.count {
            let more = Glibc.read(raw, room.baseAddress! + count, room.count - count)
            if more == 0 { break }
            if more > 0 {
                count += more
            } else if errno != EINTR {
                throw failure(errno)
            }
        }
        return count
    }

    /// The next `countMax` bytes; fewer only at the end of the file.
    ///
    /// - Throws: as the function above does.
    package borrowing func read<Failure: Error>(
        upTo countMax: Int, failure: (CInt) -> Failure
    ) throws(Failure) -> [UInt8] {
        let room = UnsafeMutableRawBufferPointer.allocate(byteCount: countMax, alignment: 1)
        defer { room.deallocate() }
        return [UInt8](room.prefix(try read(into: room, failure: failure)))
    }
}
