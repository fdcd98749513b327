import Logging

/// Watches one secret file. Reports its content at the start, if requested, and after each change.
///
/// The reader's `FileChangeMonitor` says when the file is read: milliseconds after a change where the kernel reports it, otherwise in
/// intervals. A read detects every way in which a file can change, including swapped symbolic links in any folder above it.
///
/// Only changed content counts. A rewrite of the same bytes, or a link that now leads to a copy, is not reported. A read that fails for
/// lack of descriptors, memory or threads is not reported either. A second read confirms a change before it is reported (`FileSettling`).
/// All reads run on the reader's threads. While one hangs, the reported content stays valid. All state belongs to the loop's queue.
package final class FileWatch: Watcher, @unchecked Sendable {
    /// The content, or why there is none.
    package typealias Outcome = FileSnapshot.Outcome

    /// What the watch is doing.
    private struct Activity {
        var isReading = false
        /// The reader has replied at least once.
        var hasRead = false
        var isStopped = false
        /// The deadline is the end of an interval, whose reads are spread.
        var isPaced = false
        /// Another read is to follow the present one.
        var readsAgain = false
        /// A noticed change: a read must begin then or later.
        var changeReadAt = Instant.past
    }

    /// Between two reads, where changes are not noticed and files are few.
    package static let interval = Duration.seconds(2)
    /// A read that takes longer is logged; at the start, it is reported as an error.
    package static let readTimeout = Duration.seconds(5)
    /// A file that changed this shortly before a read may change again without a new time stamp (the kernel's tick). In nanoseconds.
    private static let tick: Int64 = 100_000_000

    /// The home of all state.
    let loop: EventLoop
    private let path: String
    private let files: FileReader
    private let reportsInitialContent: Bool
    private let report: @Sendable (Outcome) -> Void
    private let confirm: (@Sendable (Instant) -> Void)?
    /// The stamp that need not be read again.
    private var seen: FileSnapshot.Stamp?
    private var reported: FileSettling.Finding.Content?
    /// The stamp of the read that is being reported; nil: the file could not be opened.
    package private(set) var stamp: FileSnapshot.Stamp?
    private var settling = FileSettling()
    /// Uses of the file (`FileUses`) that the reported content takes into account.
    private var usesReported = 0
    private var deadline: Deadline?
    private var activity = Activity()
    /// The file's number in the monitor, which retains a running watch; nil: the watch does not run.
    private var file: WatchedFiles.ID?

    /// Does nothing yet. `report` is called on the loop's queue.
    ///
    /// - Parameters:
    ///   - reportsInitialContent: false: only a content that differs from the first read's is reported.
    ///   - confirm: called after each read that has found what was reported last, with the time when the read began; also behind `report`.
    ///     Each noticed change of the file leads to a read. Without one the file is looked at once a minute, or in intervals.
    package init(
        _ path: String, by files: FileReader = FileReader(), on loop: EventLoop, reportsInitialContent: Bool = true,
        confirm: (@Sendable (Instant) -> Void)? = nil, report: @escaping @Sendable (Outcome) -> Void
    ) {
        self.path = path
        self.files = files
        self.loop = loop
        self.reportsInitialContent = reportsInitialContent
        self.report = report
        self.confirm = confirm
    }

    /// Begins to read. Call once.
    package func start() {
        loop.post { [self] in
            guard !activity.isStopped, file == nil else { return }
            file = files.changes.add(self, of: path)
            deadline = Deadline(of: self)
            read()
        }
    }

    /// Nothing is reported after this has reached the loop.
    package func stop() {
        loop.post { [self] in
            activity.isStopped = true
            if let deadline { loop.drop(deadline) }
            deadline = nil
            if let file { files.changes.remove(self, of: file) }
            file = nil
        }
    }

    // MARK: When to read

    /// Reads at once, without waiting for a noticed change or for the end of the interval. From anywhere.
    package func readNow() { loop.post { [self] in beginRead() } }

    private func beginRead() {
        // A second read is due within `FileSettling.settlingDelay`.
        guard deadline != nil, !settling.isWaiting else { return }
        if activity.isReading { activity.readsAgain = true } else { read() }
    }

    /// A login has used the file. What it has read may have been there between two reads of the watch.
    func handleUse() {
        loop.assertIsCurrent()
        guard let reported, files.uses(of: path).hasOther(than: reported, after: usesReported) else { return }
        beginRead()
    }

    /// A change was noticed: reads then, unless a read is in progress or due before. What these find may be older than the change.
    ///
    /// - Parameter instant: by the machine's clock, as the time of a read is.
    func read(at instant: Instant) {
        loop.assertIsCurrent()
        activity.changeReadAt = instant
        if deadline != nil, !activity.isReading, !settling.isWaiting { setChangeDeadline() }
    }

    private func setChangeDeadline() {
        guard let deadline else { return }
        activity.isPaced = false
        loop.set(deadline, at: loop.now + max(activity.changeReadAt - .ofMachine, .zero))
    }

    /// The file with the stamp that is to be compared with what is there now; nil: the watch is not at rest.
    var slowCheck: SlowChecks.Item? {
        loop.assertIsCurrent()
        guard deadline != nil, activity.hasRead, !activity.isReading, !settling.isWaiting else { return nil }
        return SlowChecks.Item(watch: self, path: path, known: seen)
    }

    /// The file had the known stamp then.
    func confirmUnchanged(at instant: Instant) {
        loop.assertIsCurrent()
        guard deadline != nil, !activity.isReading, !settling.isWaiting, activity.changeReadAt < instant else { return }
        confirm?(instant)
    }

    package override func due(_ deadline: Deadline) {
        loop.assertIsCurrent()
        if activity.isReading { return delay() }
        if activity.isPaced, let file {
            activity.isPaced = false
            let slot = files.changes.readSlot(of: file, at: loop.now)
            if slot > loop.now { return loop.set(deadline, at: slot) }
        }
        read()
    }

    /// Sets the deadline of the next read, unless a change is noticed before.
    private func rest(after snapshot: FileSnapshot) {
        guard let deadline, let file else { return }
        activity.isReading = false
        if activity.changeReadAt > snapshot.readAt {
            setChangeDeadline()
        } else if activity.readsAgain {
            activity.isPaced = false
            loop.set(deadline, at: loop.now)
        } else {
            let interval = files.changes.interval(of: file, canRecover: snapshot.canRecover)
            activity.isPaced = true
            loop.set(deadline, at: interval.map { loop.now + $0 } ?? .never)
        }
        activity.readsAgain = false
    }

    // MARK: Reading

    private func read() {
        guard let deadline, !activity.isStopped else { return }
        activity.isReading = true
        loop.set(deadline, at: loop.now + Self.readTimeout)
        // Reads again regardless of the stamp if a second read is due or a login has used the file since.
        let mustRead = settling.isWaiting || files.uses(of: path).count > usesReported
        files.read(at: path, known: mustRead ? nil : seen, on: loop) { [self] in receive($0) }
    }

    /// The read hangs. It ends when the file system responds.
    private func delay() {
        Logger(label: "lanyard.files").warning(
            "a secret file has not been read in time; what was read before holds until it can be read",
            metadata: ["event": "file.delayed", "path": .string(path)])
        guard reported == nil else { return }
        if reportsInitialContent {
            publish(.failure(.delayed), .failure(.delayed))
        } else {
            reported = .failure(.delayed)
        }
    }

    private func receive(_ snapshot: FileSnapshot) {
        loop.assertIsCurrent()
        guard let deadline, !activity.isStopped else { return }
        rest(after: snapshot)
        guard let outcome = snapshot.outcome else {
            settling.forget()
            confirm?(snapshot.readAt)
            return
        }
        if case .failure(.stopping) = outcome { return }
        // This says nothing about the file: the reported content stays valid until a later read succeeds.
        if case .failure(let error) = outcome, error.isShortage || (error == .unsettled && !reportsInitialContent) {
            seen = nil
            return
        }
        let finding = FileSettling.Finding(snapshot.stamp, outcome)
        let uses = files.uses(of: path)
        if reported == nil, !reportsInitialContent {
            reported = finding.content
        } else if finding.content == reported, !uses.hasOther(than: finding.content, after: usesReported) {
            usesReported = uses.count
            settling.forget()
            confirm?(snapshot.readAt)
        } else if !settling.accepts(finding, isAtRest: !activity.hasRead && snapshot.isAtRest(at: .ofMachine)) {
            activity.hasRead = true
            activity.isPaced = false
            loop.set(deadline, at: loop.now + FileSettling.settlingDelay)
            return
        } else {
            usesReported = uses.count
            stamp = snapshot.stamp
            publish(finding.content, outcome)
            confirm?(snapshot.readAt)
        }
        activity.hasRead = true
        seen = snapshot.stamp.flatMap {
            WallTime.ofMachine.nanoseconds.clampedDifference($0.changedAt) < Self.tick ? nil : $0
        }
    }

    private func publish(_ content: FileSettling.Finding.Content, _ outcome: Outcome) {
        reported = content
        report(outcome)
    }
}
