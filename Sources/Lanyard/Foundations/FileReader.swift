import CLanyard.Linux
import Dispatch
import Glibc

/// Looks at secret files on threads of its own, never on an event loop: a file system may take as long as it likes.
///
/// A call into a dead file system cannot be ended. Each file that is asked for has a thread of its own, up to 64, and one look at a time.
/// So a file that hangs costs one thread until it comes back, and holds up no other file. Beyond 64 hanging files, further ones wait.
/// Threads end when there was nothing to do for 10 s.
package final class FileReader: Sendable {
    package typealias Reply = @Sendable (FileSnapshot) -> Void
    typealias Read = @Sendable (String, FileSnapshot.Stamp?) -> FileSnapshot
    /// Starts a thread that runs the reader; 0 or the reason why there is none.
    typealias Start = @Sendable (FileReader) -> CInt

    static let threadsMax = 64
    /// An idle thread ends after that.
    private static let idleTimeout = DispatchTimeInterval.seconds(10)

    private struct Request {
        var known: FileSnapshot.Stamp?
        var reply: Reply
    }

    private struct State {
        /// Who waits for a file, from the question to the answer.
        var waiting: [String: [Request]] = [:]
        /// Files that no thread has taken yet.
        var order: [String] = []
        var threads = 0
        /// Threads that wait, those included that are being woken: each file in `order` speaks for one.
        var idle = 0
        var isStopped = false
        var uses: [String: FileUses] = [:]
    }

    private enum Step { case read(String, FileSnapshot.Stamp?), wait, end }

    private let state = Guarded(State())
    private let work = DispatchSemaphore(value: 0)
    private let read: Read
    private let start: Start

    /// No thread starts before the first look.
    package convenience init() { self.init { FileSnapshot.take($0, known: $1) } }

    /// - Parameter look: blocks until the file has answered.
    init(read: @escaping Read, start: @escaping Start = { FileReader.startThread($0) }) {
        self.read = read
        self.start = start
    }

    /// Looks at the file, and reads it unless its stamp is `known`. `reply` comes once, on the queue of `loop`, perhaps never: bound your
    /// waiting. Who asks for a file that is being looked at shares that look.
    package func read(at path: String, known: FileSnapshot.Stamp? = nil, on loop: EventLoop, reply: @escaping Reply) {
        let request = Request(known: known) { read in loop.post { reply(read) } }
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

    /// Who waits is told `.stopping` at once, and so is everybody later. Threads whose files hang are left to the end of the process. For
    /// good; from anywhere.
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

    /// What a login has read of the file and used, beside the watch of the file.
    func noteUse(of path: String, _ content: FileSettling.Finding.Content) {
        state.withLock { $0.uses[path, default: FileUses()].note(content) }
    }

    /// The uses of the file so far.
    func uses(of path: String) -> FileUses { state.withLock { $0.uses[path] } ?? FileUses() }

    // MARK: Threads

    private static func startThread(_ reader: FileReader) -> CInt {
        var thread = pthread_t()
        let context = Unmanaged.passRetained(reader)
        let code = pthread_create(
            &thread, nil,
            { raw in
                Unmanaged<FileReader>.fromOpaque(raw!).takeRetainedValue().run()
                return nil
            }, context.toOpaque())
        if code == 0 { pthread_detach(thread) } else { context.release() }
        return code
    }

    /// There is no thread for a file: the next one that is free takes it. If there is none at all, nobody would ever answer.
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

    /// One thread's life.
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

    /// - Returns: whether the thread is over. A file that came at the last moment is still its own.
    private func endsAfterIdleWait(_ isIdle: Bool) -> Bool {
        state.withLock { state in
            state.idle -= 1
            guard isIdle, state.order.isEmpty else { return false }
            state.threads -= 1
            return true
        }
    }

    /// Tells all whom this look serves. For the others, who know another stamp than the one that spared the reading, it is taken again.
    private func deliver(_ path: String, _ known: FileSnapshot.Stamp?, _ read: FileSnapshot) {
        let served = state.withLock { state -> [Request] in
            var requests = state.waiting.removeValue(forKey: path) ?? []
            let split = read.outcome == nil ? requests.partition { $0.known == known } : 0
            if split > 0 {
                state.waiting[path] = Array(requests[..<split])
                state.order.append(path)
            }
            return Array(requests[split...])
        }
        for request in served { request.reply(read) }
    }
}
