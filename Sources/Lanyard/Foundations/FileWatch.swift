import Logging

/// Watches one secret file and tells what it holds: at the start, if that is wanted, and after each change of that.
///
/// It looks every two seconds, since a look sees every way in which a file can change, the swaps of symbolic links in any folder above it
/// included, which inotify shows only to who watches each of those folders. Only a changed content counts: a rewrite of the same
/// bytes, or a link that now leads to a copy, is not told; nor is a look that fails for want of descriptors, memory or threads. A change is
/// told when a second look confirms it (`FileSettling`). All looks are taken on the reader's threads; while one hangs, what was told holds.
/// All state belongs to the loop's queue.
package final class FileWatch: Watcher, @unchecked Sendable {
    package typealias Outcome = FileSnapshot.Outcome

    /// Between two looks.
    package static let interval = Duration.seconds(2)
    /// A look that takes longer is logged; at the start, it is told as a problem.
    package static let readTimeout = Duration.seconds(5)
    /// A file that changed so shortly before a look may change again without a new time stamp (the kernel's tick).
    private static let tick: Int64 = 100_000_000

    private let path: String
    private let files: FileReader
    private let loop: EventLoop
    private let reportsInitialContent: Bool
    private let report: @Sendable (Outcome) -> Void
    private let log = Logger(label: "lanyard.files")
    /// What need not be read again.
    private var seen: FileSnapshot.Stamp?
    private var reported: FileSettling.Finding.Content?
    private var settling = FileSettling()
    /// Uses of the file (`FileUses`) that what was told takes account of.
    private var usesReported = 0
    private var deadline: Deadline?
    private var isReading = false
    /// The reader has answered at least once.
    private var hasRead = false
    /// A deadline does not hold its owner: a running watch holds itself.
    private var running: FileWatch?
    private var isStopped = false

    /// Does nothing yet. `tell` is called on the loop's queue.
    ///
    /// - Parameter tellsStart: false: only what differs from the very first look is told.
    package init(
        _ path: String, by files: FileReader = FileReader(), on loop: EventLoop, reportsInitialContent: Bool = true,
        report: @escaping @Sendable (Outcome) -> Void
    ) {
        self.path = path
        self.files = files
        self.loop = loop
        self.reportsInitialContent = reportsInitialContent
        self.report = report
    }

    /// Begins to look. Once.
    package func start() {
        loop.post { [self] in
            guard !isStopped, running == nil else { return }
            running = self
            deadline = Deadline(of: self)
            read()
        }
    }

    /// Nothing is told after this has reached the loop.
    package func stop() {
        loop.post { [self] in
            isStopped = true
            if let deadline { loop.drop(deadline) }
            deadline = nil
            running = nil
        }
    }

    package override func due(_ deadline: Deadline) { if isReading { delay() } else { read() } }

    private func read() {
        guard let deadline, !isStopped else { return }
        isReading = true
        loop.set(deadline, at: loop.now + Self.readTimeout)
        // What needs a second look is read again whatever its stamp is, and so is what somebody has used meanwhile.
        let mustRead = settling.isWaiting || files.uses(of: path).count > usesReported
        files.read(at: path, known: mustRead ? nil : seen, on: loop) { [weak self] in self?.receive($0) }
    }

    /// The look hangs. It ends when the file system comes back.
    private func delay() {
        log.warning(
            "a secret file has not been read in time; what was read before holds until it can be read",
            metadata: ["event": "file.delayed", "path": .string(path)])
        guard reported == nil else { return }
        if reportsInitialContent {
            publish(.problem(.delayed), .failure(.delayed))
        } else {
            reported = .problem(.delayed)
        }
    }

    private func receive(_ read: FileSnapshot) {
        guard let deadline, !isStopped else { return }
        isReading = false
        loop.set(deadline, at: loop.now + Self.interval)
        guard let outcome = read.outcome else { return settling.forget() }
        if case .failure(.stopping) = outcome { return }
        // It says nothing of the file: what was told holds until a later look can read it.
        if reported != nil, case .failure(let problem) = outcome, problem.isShortage {
            seen = nil
            return
        }
        let finding = FileSettling.Finding(read.stamp, outcome)
        let uses = files.uses(of: path)
        if reported == nil, !reportsInitialContent {
            reported = finding.content
        } else if finding.content == reported, !uses.hasOther(than: finding.content, after: usesReported) {
            usesReported = uses.count
            settling.forget()
        } else if !settling.accepts(finding, trustsAge: !hasRead, at: .now) {
            hasRead = true
            loop.set(deadline, at: loop.now + FileSettling.pause)
            return
        } else {
            usesReported = uses.count
            publish(finding.content, outcome)
        }
        hasRead = true
        seen = read.stamp.flatMap { WallTime.now.nanoseconds - $0.changedAt < Self.tick ? nil : $0 }
    }

    private func publish(_ content: FileSettling.Finding.Content, _ outcome: Outcome) {
        reported = content
        report(outcome)
    }
}
