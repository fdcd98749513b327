import Glibc

/// A lock by `flock`: it belongs to the open file, so it holds between two of one process as well, and closing another descriptor of the
/// same file gives nothing back (record locks of `fcntl` would go).
final class SystemDiskLock: DiskLock {
    private let file: OwnedDescriptor

    init(_ file: consuming OwnedDescriptor) { self.file = file }

    func release() { flock(file.raw, LOCK_UN) }
}
