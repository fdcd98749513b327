import Glibc

/// A lock by `flock`. It belongs to the open file, so it also excludes a second lock of the same process. Closing another descriptor of the
/// same file does not release it, unlike a record lock of `fcntl`.
final class SystemDiskLock: DiskLock {
    private let file: OwnedDescriptor

    init(_ file: consuming OwnedDescriptor) { self.file = file }

    func release() { flock(file.raw, LOCK_UN) }
}
