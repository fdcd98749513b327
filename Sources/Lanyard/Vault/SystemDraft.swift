import Glibc

/// The descriptor of a file that is being written.
final class SystemDiskWriter: DiskWriter {
    private let file: OwnedDescriptor

    init(_ file: consuming OwnedDescriptor) { self.file = file }

    func write(_ bytes: UnsafeRawBufferPointer) throws(DiskError) -> Int {
        while true {
            let count = Glibc.write(file.raw, bytes.baseAddress, bytes.count)
            if count > 0 { return count }
            // A regular file never accepts zero of several bytes. Repeating the call would never end.
            if count == 0 { throw DiskError(EIO, "writing") }
            if errno != EINTR { throw DiskError(errno, "writing") }
        }
    }

    func sync() throws(DiskError) {
        while fsync(file.raw) != 0 {
            if errno != EINTR { throw DiskError(errno, "syncing") }
        }
    }
}
