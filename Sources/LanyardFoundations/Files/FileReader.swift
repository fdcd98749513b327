/// Reads secret files on threads of its own, never on an event loop, because a file system may take any amount of time.
///
/// A call into a hanging file system cannot be ended. A file that hangs costs one thread until it returns, and delays others by a few
/// milliseconds. Each file has one read at a time. There are 64 threads at most: beyond 64 hanging files, further ones wait.
package final class FileReader: Sendable {
    /// Takes what a read has found, on the queue of the caller's loop.
    package typealias Reply = @Sendable (FileSnapshot) -> Void
    typealias Read = @Sendable (String, FileSnapshot.Stamp?) -> FileSnapshot
    typealias Calls = BlockingCalls<Request, FileSnapshot>

    struct Request {
        let known: FileSnapshot.Stamp?
        let reply: Reply
    }

    static let threadsMax = 64
    private static let stopped = FileSnapshot(stamp: nil, outcome: .failure(.stopping))

    /// Notices changes of the files that are watched by this reader.
    let changes: FileChangeMonitor
    private let calls: Calls
    private let uses = Guarded<[String: FileUses]>([:])

    /// No thread starts before the first read.
    ///
    /// - Parameter changes: the process's; the default one reads watched files in intervals.
    package convenience init(noticing changes: FileChangeMonitor = FileChangeMonitor()) {
        self.init(noticing: changes) { FileSnapshot.read($0, known: $1) }
    }

    /// Reads the credentials of logins. The largest kinds have more bytes than other secrets. The caller checks the size of each kind.
    ///
    /// - Parameter changes: as of `init`.
    package static func ofCredentials(noticing changes: FileChangeMonitor = FileChangeMonitor()) -> FileReader {
        FileReader(noticing: changes) { FileSnapshot.read($0, known: $1, textUpTo: SecretFile.credentialBytesMax) }
    }

    /// Reads files bit for bit, up to this size: not secrets of text, but certificates with their keys.
    ///
    /// - Parameter changes: as of `init`.
    package static func ofWholeFiles(
        bytesMax: Int, noticing changes: FileChangeMonitor = FileChangeMonitor()
    ) -> FileReader {
        FileReader(noticing: changes) { FileSnapshot.read($0, known: $1, wholeUpTo: bytesMax) }
    }

    /// - Parameter read: blocks until the file system has responded.
    init(
        noticing changes: FileChangeMonitor = FileChangeMonitor(), read: @escaping Read,
        start: @escaping Calls.Start = { DetachedThread.start($0) }
    ) {
        self.changes = changes
        calls = Calls(
            threadsMax: Self.threadsMax,
            kind: Calls.Kind(
                perform: { path, first in
                    // What changes after this is an event, and leads to another read.
                    changes.watchNames(of: path)
                    return read(path, first.known)
                },
                // A read that its known stamp avoided tells nothing to a request with another stamp.
                serves: { snapshot, first, request in snapshot.outcome != nil || request.known == first.known },
                outcomeWithoutThread: { FileSnapshot(stamp: nil, outcome: .failure(.system($0))) },
                reply: { snapshot, requests in for request in requests { request.reply(snapshot) } }), start: start)
    }

    /// Reads the file unless its stamp is `known`. `reply` is called at most once, on the queue of `loop`. It may never be called, so the
    /// caller needs a time limit. A request for a file that is being read shares that read.
    package func read(at path: String, known: FileSnapshot.Stamp? = nil, on loop: EventLoop, reply: @escaping Reply) {
        #if DEBUG
        let reply = loop.awaitedReply(reply)
        #endif
        let request = Request(known: known) { snapshot in loop.post { reply(snapshot) } }
        if !calls.call(path, for: request) { request.reply(Self.stopped) }
    }

    /// Waiting and later requests get `.stopping` at once. Threads with hanging files stay until the process ends. Permanent; callable from
    /// any thread.
    package func stop() { for request in calls.stop() { request.reply(Self.stopped) } }

    // MARK: Uses

    /// Records what a login has read and used, independently of the file's watch: a content, or the lack of one.
    func noteUse(of path: String, _ content: FileSettling.Finding.Content) {
        let isNews = uses.withLock { uses in
            defer { uses[path, default: FileUses()].note(content) }
            // Ten thousand logins with the same client secret are no news. That a file cannot be read is, each time.
            if case .failure = content { return true }
            return uses[path]?.latestContent != content
        }
        if isNews { changes.noteUse(of: path) }
    }

    /// The uses of the file so far.
    func uses(of path: String) -> FileUses { uses.withLock { $0[path] } ?? FileUses() }
}

/// Which contents of a file were used, numbered by use.
///
/// A login reads its file independently of the file's watch. So a content may be used that appeared and disappeared between two reads of
/// the watch. The return of the former content then counts as a change.
struct FileUses {
    /// An operator does not write more contents than this within one interval of a watch.
    private static let contentsMax = 8

    /// All uses so far.
    private(set) var count = 0
    private var latest: [(content: FileSettling.Finding.Content, number: Int)] = []

    /// The content of the latest use.
    var latestContent: FileSettling.Finding.Content? { latest.last?.content }

    mutating func note(_ content: FileSettling.Finding.Content) {
        count += 1
        latest.removeAll { $0.content == content }
        if latest.count == Self.contentsMax { latest.removeFirst() }
        latest.append((content, count))
    }

    /// Whether another content than this one was used after use `number`.
    func hasOther(than content: FileSettling.Finding.Content, after number: Int) -> Bool {
        latest.contains { $0.number > number && $0.content != content }
    }
}
