import CLinux
import Dispatch
import Glibc

/// Reads secret files on threads of its own, never on an event loop, because a file system may take any amount of time.
///
/// A call into a hanging file system cannot be ended. Each requested file has a thread of its own, up to 64, and one read at a time. A file
/// that hangs costs one thread until it returns and delays no other file. Beyond 64 hanging files, further ones wait. Threads end after 10
/// s without work.
package final class FileReader: Sendable {
    /// Takes what a read has found, on the queue of the caller's loop.
    package typealias Reply = @Sendable (FileSnapshot) -> Void
    typealias Read = @Sendable (String, FileSnapshot.Stamp?) -> FileSnapshot
    /// Starts a thread that runs the reader; returns 0, or the `errno` value if there is none.
    typealias Start = @Sendable (FileReader) -> CInt

    static let threadsMax = 64
    /// An idle thread ends after this time.
    private static let idleTimeout = DispatchTimeInterval.seconds(10)

    private struct Request {
        var known: FileSnapshot.Stamp?
        var reply: Reply
    }

    private struct State {
        /// Requests that wait for a file, from the request to the reply.
        var waiting: [String: [Request]] = [:]
        /// Files that wait for a thread.
        var order: [String] = []
        var threads = 0
        /// Threads that wait, including those that are being woken: each file in `order` stands for one.
        var idle = 0
        var isStopped = false
        var uses: [String: FileUses] = [:]
    }

    private enum Step { case read(String, FileSnapshot.Stamp?), wait, end }

    private let state = Guarded(State())
    private let work = DispatchSemaphore(value: 0)
    private let read: Read
    private let start: Start

    /// No thread starts before the first read.
    package convenience init() { self.init { FileSnapshot.read($0, known: $1) } }

    /// Reads the credentials of logins. The largest kinds have more bytes than other secrets. The caller checks the size of each kind.
    package static func ofCredentials() -> FileReader {
        FileReader { FileSnapshot.read($0, known: $1, textUpTo: SecretFile.credentialBytesMax) }
    }

    /// Reads files bit for bit, up to this size: not secrets of text, but certificates with their keys.
    package static func ofWholeFiles(bytesMax: Int) -> FileReader {
        FileReader { FileSnapshot.read($0, known: $1, wholeUpTo: bytesMax) }
    }

    /// - Parameter read: blocks until the file system has responded.
    init(read: @escaping Read, start: @escaping Start = { reader in DetachedThread.start { reader.run() } }) {
        self.read = read
        self.start = start
    }

    /// Reads the file unless its stamp is `known`. `reply` is called at most once, on the queue of `loop`. It may never be called, so the
    /// caller needs a time limit. A request for a file that is being read shares that read.
    package func read(at path: String, known: FileSnapshot.Stamp? = nil, on loop: EventLoop, reply: @escaping Reply) {
        let request = Request(known: known) { snapshot in loop.post { reply(snapshot) } }
        let (isRefused, spawns, wakes) = state.withLock { state -> (Bool, Bool, Bool) in
            guard !state.isStopped else { return (true, false, false) }
            let isNew = state.waiting[path] == nil
            state.waiting[path, default: []].append(request)
            guard isNew else { return (false, false, false) }
            state.order.append(path)
            guard state.order.count > state.idle, state.threads < Self.threadsMax else { return (false, false, true) }
            state.threads += 1
            return (false, true, false)
        }
        if isRefused { request.reply(Self.stopped) }
        if wakes { work.signal() }
        guard spawns else { return }
        let code = start(self)
        if code != 0 { handleMissingThread(code) }
    }

    /// Waiting and later requests get `.stopping` at once. Threads with hanging files stay until the process ends. Permanent; callable from
    /// any thread.
    package func stop() {
        let requests = state.withLock { state -> [Request] in
            state.isStopped = true
            defer { (state.waiting, state.order) = ([:], []) }
            return state.waiting.values.flatMap(\.self)
        }
        for request in requests { request.reply(Self.stopped) }
    }

    private static let stopped = FileSnapshot(stamp: nil, outcome: .failure(.stopping))

    // MARK: Uses

    /// Records what a login has read and used, independently of the file's watch: a content, or the lack of one.
    func noteUse(of path: String, _ content: FileSettling.Finding.Content) {
        state.withLock { $0.uses[path, default: FileUses()].note(content) }
    }

    /// The uses of the file so far.
    func uses(of path: String) -> FileUses { state.withLock { $0.uses[path] } ?? FileUses() }

    // MARK: Threads

    /// No thread could be started for a file. The next free thread takes it. If there is no thread at all, every waiting request fails,
    /// because no reply would ever come.
    private func handleMissingThread(_ code: CInt) {
        let requests = state.withLock { state -> [Request] in
            state.threads -= 1
            guard state.threads == 0 else { return [] }
            let paths = state.order
            state.order = []
            return paths.flatMap { state.waiting.removeValue(forKey: $0) ?? [] }
        }
        for request in requests { request.reply(FileSnapshot(stamp: nil, outcome: .failure(.system(code)))) }
    }

    /// Runs one thread until it ends.
    func run() {
        while true {
            switch nextStep() {
            case .read(let path, let known): deliver(path, known, read(path, known))
            case .wait:
                let isIdle = work.wait(timeout: .now() + Self.idleTimeout) == .timedOut
                if endsAfterIdleWait(isIdle) { return }
            case .end: return
            }
        }
    }

    private func nextStep() -> Step {
        state.withLock { state in
            if let path = state.order.first {
                state.order.removeFirst()
                return .read(path, state.waiting[path]?.first?.known)
            }
            guard !state.isStopped else {
                state.threads -= 1
                return .end
            }
            state.idle += 1
            return .wait
        }
    }

    /// - Returns: whether the thread ends. A file that came at the last moment is still read by it.
    private func endsAfterIdleWait(_ isIdle: Bool) -> Bool {
        state.withLock { state in
            state.idle -= 1
            guard isIdle, state.order.isEmpty else { return false }
            state.threads -= 1
            return true
        }
    }

    /// Replies to every request that this read serves. A request with another known stamp than the one that avoided the read is read again.
    private func deliver(_ path: String, _ known: FileSnapshot.Stamp?, _ snapshot: FileSnapshot) {
        let served = state.withLock { state -> [Request] in
            var requests = state.waiting.removeValue(forKey: path) ?? []
            let split = snapshot.outcome == nil ? requests.partition { $0.known == known } : 0
            if split > 0 {
                state.waiting[path] = Array(requests[..<split])
                state.order.append(path)
            }
            return Array(requests[split...])
        }
        for request in served { request.reply(snapshot) }
    }
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
