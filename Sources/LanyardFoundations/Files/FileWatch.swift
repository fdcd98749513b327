import Logging

/// Watches one secret file. Reports its content at the start, if requested, and after each change.
///
/// It reads every two seconds. A read detects every way in which a file can change, including swapped symbolic links in any folder above
/// it. inotify shows those only to a watcher of each of these folders.
///
/// Only changed content counts. A rewrite of the same bytes, or a link that now leads to a copy, is not reported. A read that fails for
/// lack of descriptors, memory or threads is not reported either. A second read confirms a change before it is reported (`FileSettling`).
/// All reads run on the reader's threads. While one hangs, the reported content stays valid. All state belongs to the loop's queue.
package final class FileWatch: Watcher, @unchecked Sendable {
    /// The content, or why there is none.
    package typealias Outcome = FileSnapshot.Outcome

    /// Between two reads.
    package static let interval = Duration.seconds(2)
    /// A read that takes longer is logged; at the start, it is reported as an error.
    package static let readTimeout = Duration.seconds(5)
    /// A file that changed this shortly before a read may change again without a new time stamp (the kernel's tick). In nanoseconds.
    private static let tick: Int64 = 100_000_000

    private let path: String
    private let files: FileReader
    private let loop: EventLoop
    private let reportsInitialContent: Bool
    private let report: @Sendable (Outcome) -> Void
    private let confirm: (@Sendable (Instant) -> Void)?
    private let log = Logger(label: "lanyard.files")
    /// The stamp that need not be read again.
    private var seen: FileSnapshot.Stamp?
    private var reported: FileSettling.Finding.Content?
    /// The stamp of the read that is being reported; nil: the file could not be opened.
    package private(set) var stamp: FileSnapshot.Stamp?
    private var settling = FileSettling()
    /// Uses of the file (`FileUses`) that the reported content takes into account.
    private var usesReported = 0
    private var deadline: Deadline?
    private var isReading = false
    /// The reader has replied at least once.
    private var hasRead = false
    /// A deadline does not retain its owner: a running watch retains itself.
    private var running: FileWatch?
    private var isStopped = false

    /// Does nothing yet. `report` is called on the loop's queue.
    ///
    /// - Parameters:
    ///   - reportsInitialContent: false: only a content that differs from the first read's is reported.
    ///   - confirm: called after each read that has found what was reported last, with the time when the read began; also behind `report`.
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
            guard !isStopped, running == nil else { return }
            running = self
            deadline = Deadline(of: self)
            read()
        }
    }

    /// Nothing is reported after this has reached the loop.
    package func stop() {
        loop.post { [self] in
            isStopped = true
            if let deadline { loop.drop(deadline) }
            deadline = nil
            running = nil
        }
    }

    package override func due(_ deadline: Deadline) {
        loop.assertIsCurrent()
        if isReading { delay() } else { read() }
    }

    private func read() {
        guard let deadline, !isStopped else { return }
        isReading = true
        loop.set(deadline, at: loop.now + Self.readTimeout)
        // Reads again regardless of the stamp if a second read is due or a login has used the file since.
        let mustRead = settling.isWaiting || files.uses(of: path).count > usesReported
        files.read(at: path, known: mustRead ? nil : seen, on: loop) { [weak self] in self?.receive($0) }
    }

    /// The read hangs. It ends when the file system responds.
    private func delay() {
        log.warning(
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
        guard let deadline, !isStopped else { return }
        isReading = false
        loop.set(deadline, at: loop.now + Self.interval)
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
        } else if !settling.accepts(finding, isAtRest: !hasRead && snapshot.isAtRest(at: .ofMachine)) {
            hasRead = true
            loop.set(deadline, at: loop.now + FileSettling.settlingDelay)
            return
        } else {
            usesReported = uses.count
            stamp = snapshot.stamp
            publish(finding.content, outcome)
            confirm?(snapshot.readAt)
        }
        hasRead = true
        seen = snapshot.stamp.flatMap {
            WallTime.ofMachine.nanoseconds.clampedDifference($0.changedAt) < Self.tick ? nil : $0
        }
    }

    private func publish(_ content: FileSettling.Finding.Content, _ outcome: Outcome) {
        reported = content
        report(outcome)
    }
}
