// Which of the two modules owns pthread_mutex_t depends on which was compiled first.
import CLinux
import Glibc

/// A value that one thread at a time may use, behind a POSIX mutex. For the control plane and what it reports, never on the request path.
///
/// Not `Synchronization.Mutex`: the thread sanitizer does not see its futex and would report every use as a race.
package struct Guarded<Value>: ~Copyable, @unchecked Sendable {
    private let mutex: UnsafeMutablePointer<pthread_mutex_t>
    private let value: UnsafeMutablePointer<Value>

    package init(_ value: sending Value) {
        mutex = .allocate(capacity: 1)
        mutex.initialize(to: pthread_mutex_t())
        pthread_mutex_init(mutex, nil)
        self.value = .allocate(capacity: 1)
        self.value.initialize(to: value)
    }

    deinit {
        value.deinitialize(count: 1)
        value.deallocate()
        pthread_mutex_destroy(mutex)
        mutex.deallocate()
    }

    /// Uses the value while other threads wait. Must not be nested.
    ///
    /// - Throws: the error of `body`. The value is as `body` left it, and the lock is free.
    package borrowing func withLock<Result: ~Copyable, Failure: Error>(
        _ body: (inout Value) throws(Failure) -> sending Result
    ) throws(Failure) -> sending Result {
        pthread_mutex_lock(mutex)
        defer { pthread_mutex_unlock(mutex) }
        return try body(&value.pointee)
    }
}
