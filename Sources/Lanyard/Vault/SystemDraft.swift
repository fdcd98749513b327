import Glibc

/// The descriptor of a file that is being written.
final class SystemDraft: DiskDraft {
    private let file: OwnedDescriptor

    init(_ file: consuming OwnedDescriptor) { self.file = file }

    func write(_ bytes: UnsafeRawBufferPointer) throws(DiskFault) -> Int {
        while true {
            let count = Glibc.write(file.raw, bytes.baseAddress, bytes.count)
            if count > 0 { return count }
            // No regular file takes nothing of something; whoever repeats that would never end.
            if count == 0 { throw DiskFault(EIO, "writing") }
            if errno != EINTR { throw DiskFault(errno, "writing") }
        }
    }

    func sync() throws(DiskFault) {
        while fsync(file.raw) != 0 {
            if errno != EINTR { throw DiskFault(errno, "syncing") }
        }
    }
}
