import LanyardFoundations

/// The readers of the program's files. They share one monitor, so that all watches together use one inotify instance.
///
/// The watches of TLS files have readers of their own, with the same monitor.
struct ProgramFileReaders: Sendable {
    let changes: FileChangeMonitor
    let credentials: FileReader
    /// Reads capabilities and no other file, so that credentials that hang do not delay them.
    let capabilities: FileReader
    /// The same for the files of `set_headers`.
    let fields: FileReader

    /// - Parameter loop: of watches of files.
    init(on loop: EventLoop) {
        changes = FileChangeMonitor(on: loop)
        credentials = .ofCredentials(noticing: changes)
        capabilities = FileReader(noticing: changes)
        fields = FileReader(noticing: changes)
    }

    /// A reader of the admin token and no other file.
    func ofAdmin() -> FileReader { FileReader(noticing: changes) }

    /// Logins that wait for a file end. A thread that is blocked in a file call is left running.
    func stop() {
        credentials.stop()
        capabilities.stop()
        fields.stop()
    }
}
