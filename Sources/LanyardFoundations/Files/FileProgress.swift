import CLinux

/// Which file a thread is in a call for, for another thread that reports calls that take long.
package final class FileProgress: Sendable {
    private struct State {
        var path: String?
        /// Since when the call for it lasts; nil: none does.
        var since: Instant?
    }

    private let state = Guarded(State())

    package init() {}

    /// The file that the thread has begun to use last; nil: none yet. From any thread.
    package var path: String? { state.withLock { $0.path } }

    /// The call that the thread is in, and since when; nil: it is in none. From any thread.
    package var current: (path: String, since: Instant)? {
        state.withLock { state in
            guard let path = state.path, let since = state.since else { return nil }
            return (path, since)
        }
    }

    /// Runs `body`, whose calls for files are noted here. Not nested.
    package func noting<Result>(_ body: () -> Result) -> Result {
        attach()
        defer { lanyard_set_thread_note(nil) }
        return body()
    }

    /// Notes the calls of the calling thread here from now on. The caller keeps this object alive.
    func attach() { lanyard_set_thread_note(Unmanaged.passUnretained(self).toOpaque()) }

    /// Another thread begins calls for this file. From any thread.
    package func note(_ path: String) { state.withLock { $0 = State(path: path, since: .now) } }

    /// The calling thread begins calls for this file. Nothing happens on a thread whose calls are not noted.
    package static func note(_ path: String) { ofThread?.note(path) }

    /// The calls of the calling thread for its file have ended.
    package static func noteEnd() { ofThread?.state.withLock { $0.since = nil } }

    private static var ofThread: FileProgress? {
        lanyard_thread_note().map { Unmanaged<FileProgress>.fromOpaque($0).takeUnretainedValue() }
    }
}
