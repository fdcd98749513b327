import Synchronization

/// Looks at each file whose changes are noticed once a minute, for the changes that inotify does not report.
///
/// Ten thousand files must cost next to nothing. So the files of five seconds are one call on a thread, which compares stamps and reads no
/// file. All mutable state without a lock belongs to the loop's queue.
final class SlowChecks: Watcher, @unchecked Sendable {
    /// The files of one call, all of one loop.
    final class Call: Sendable {
        let items: [Item]
        let startedAt = Instant.ofMachine
        /// Takes what `run` has found; empty: it has not run.
        let reply: @Sendable (Call, [Bool]) -> Void
        /// How many of the items have been looked at.
        private let done = Atomic<Int>(0)

        init(_ items: [Item], reply: @escaping @Sendable (Call, [Bool]) -> Void) {
            self.items = items
            self.reply = reply
        }

        /// Looks at the files. Blocks as long as their file systems do.
        ///
        /// - Returns: for each file whether it has another stamp than before.
        func run() -> [Bool] {
            items.map { item in
                defer { done.add(1, ordering: .relaxed) }
                return FileSnapshot.stamp(of: item.path) != item.known
            }
        }

        /// The items that have not been looked at.
        var rest: ArraySlice<Item> { items[done.load(ordering: .relaxed)...] }
    }

    /// One file.
    struct Item: Sendable {
        let watch: FileWatch
        let path: String
        /// nil: there was no file.
        let known: FileSnapshot.Stamp?
    }

    /// In which each file is looked at once.
    static let period = Duration.seconds(60)
    /// Between two calls, with many files.
    private static let step = Duration.seconds(5)
    /// So few files are not worth a wakeup of their own.
    private static let fewFiles = 64
    /// A call that takes longer has met a file that hangs.
    private static let callTimeout = FileWatch.readTimeout
    /// Further calls wait until one of these threads comes back.
    private static let threadsMax = 4

    private unowned let monitor: FileChangeMonitor
    private let loop: EventLoop
    private let calls: BlockingCalls<Call, [Bool]>
    private let running = Guarded<[Call]>([])
    private let callCount = Atomic<Int>(0)
    /// The files of the present round that have not been looked at.
    private var left: ArraySlice<WatchedFiles.ID> = []
    private var roundCount = 0
    private lazy var deadline = Deadline(of: self)

    init(of monitor: FileChangeMonitor, on loop: EventLoop) {
        self.monitor = monitor
        self.loop = loop
        calls = BlockingCalls(
            threadsMax: Self.threadsMax,
            kind: .init(
                perform: { _, call in call.run() }, outcomeWithoutThread: { _ in [] },
                reply: { changed, calls in for call in calls { call.reply(call, changed) } }))
        super.init()
    }

    /// Once.
    func begin() {
        loop.assertIsCurrent()
        loop.set(deadline, at: loop.now + Self.step)
    }

    override func due(_ deadline: Deadline) {
        loop.assertIsCurrent()
        abandonHangingCalls()
        if left.isEmpty {
            left = monitor.filesOfSlowChecks[...]
            roundCount = left.count
        }
        let delay = Self.delay(fileCount: roundCount)
        let count = min(Self.filesPerCall(fileCount: roundCount), left.count)
        begin(monitor.watches(of: left.prefix(count)))
        left = left.dropFirst(count)
        loop.set(deadline, at: loop.now + delay)
    }

    /// Between two calls: longer for few files.
    static func delay(fileCount: Int) -> Duration {
        min(max(period * fewFiles / max(fileCount, 1), step), period)
    }

    /// As many as keep the period, within the limit of reads in a second.
    static func filesPerCall(fileCount: Int) -> Int {
        let count = Double(fileCount) * (delay(fileCount: fileCount) / period)
        return min(Int(count.rounded(.up)), ReadPace.perSecond * Int(step.inSeconds))
    }

    private func begin(_ watches: [FileWatch]) {
        for group in Dictionary(grouping: watches, by: { ObjectIdentifier($0.loop) }).values {
            group[0].loop.post { [weak self] in self?.begin(group.compactMap(\.slowCheck), on: group[0].loop) }
        }
    }

    /// On the queue of the watches' loop, which they check.
    private func begin(_ items: [Item], on loop: EventLoop) {
        guard !items.isEmpty else { return }
        let reply: @Sendable ((call: Call, changed: [Bool])) -> Void = { [weak self] in
            self?.finish($0.call, $0.changed)
        }
        #if DEBUG
        let awaited = loop.awaitedReply(reply)
        #else
        let awaited = reply
        #endif
        let call = Call(items) { call, changed in loop.post { awaited((call, changed)) } }
        running.withLock { $0.append(call) }
        let number = callCount.add(1, ordering: .relaxed).newValue
        _ = calls.call("\(number)", for: call)
    }

    /// As `begin`.
    private func finish(_ call: Call, _ changed: [Bool]) {
        running.withLock { $0.removeAll { $0 === call } }
        for (item, isChanged) in zip(call.items, changed) {
            if isChanged {
                monitor.handleUnnoticedChange(at: item.path)
            } else {
                item.watch.confirmUnchanged(at: call.startedAt)
            }
        }
    }

    /// Lets the watches read what a call has not reached, each on a thread of its own. A file that hangs is then logged.
    private func abandonHangingCalls() {
        let hanging = running.withLock { running in
            let start = running.partition { $0.startedAt + Self.callTimeout <= .ofMachine }
            defer { running.removeSubrange(start...) }
            return Array(running[start...])
        }
        for call in hanging { for item in call.rest { item.watch.readNow() } }
    }
}
