import Glibc

/// Which file a thread is in a call for, for another thread that reports calls that take long.
package final class FileProgress: Sendable {
    private static let key: pthread_key_t = {
        var key = pthread_key_t()
        // Without a key no file is named.
        return pthread_key_create(&key, nil) == 0 ? key : .max
    }()

    private let latest = Guarded<String?>(nil)

    package init() {}

    /// The file that the thread has begun to use last; nil: none yet. From any thread.
    package var path: String? { latest.withLock { $0 } }

    /// Runs `body`, whose calls for files are noted here. Not nested.
    package func noting<Result>(_ body: () -> Result) -> Result {
        pthread_setspecific(Self.key, Unmanaged.passUnretained(self).toOpaque())
        defer { pthread_setspecific(Self.key, nil) }
        return body()
    }

    /// Another thread begins calls for this file. From any thread.
    package func note(_ path: String) { latest.withLock { $0 = path } }

    /// The calling thread begins a call for this file. Nothing happens on a thread whose calls are not noted.
    package static func note(_ path: String) {
        guard let raw = pthread_getspecific(key) else { return }
        Unmanaged<FileProgress>.fromOpaque(raw).takeUnretainedValue().note(path)
    }
}
