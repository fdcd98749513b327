import LanyardFoundations
import LanyardRequestPath

/// Watches the TLS files of one listener or identity, or of all upstreams, and uses their contents when no file has changed for a moment.
///
/// A subclass uses them. It belongs to one configuration, until a reload ends it. All mutable state without a lock belongs to the loop's
/// queue.
class TLSFileGroupWatch: Watcher, @unchecked Sendable {
    private struct Published {
        /// What the program uses.
        var inUse: TLSFileContents
        /// Another watch, or none, has its place. Changed in a turn of `publication`.
        var isEnded = false
    }

    private let paths: [String]
    private let loop: EventLoop
    private let publication: FilePublication
    /// As the watches have reported them.
    private var contents: TLSFileContents
    /// Paths whose contents were not used yet.
    private var changed: Set<String> = []
    /// Paths of files that cannot be read.
    private var failing: Set<String> = []
    private var watches: [FileWatch] = []
    private var deadline: Deadline?
    private let published: Guarded<Published>

    /// - Parameter contents: as the files were read before. They are in use.
    init(_ paths: [String], _ contents: TLSFileContents, by publication: FilePublication, on loop: EventLoop) {
        (self.paths, self.contents, self.publication, self.loop) = (paths, contents, publication, loop)
        published = Guarded(Published(inUse: contents))
        super.init()
    }

    /// Uses changed contents. A thrown error is logged by `logFailure`.
    ///
    /// - Returns: the paths whose contents are in use now.
    func use(
        _ contents: TLSFileContents, changed: Set<String>, in turn: borrowing FilePublication.Turn
    ) throws(TLSFileContents.FileError) -> [String] { [] }

    /// Logs why the files cannot be used, on the loop's queue.
    func logFailure(_ reason: String) {}

    /// What the program uses, each file with the time when it held that. From any thread.
    final var contentsInUse: TLSFileContents { published.withLock(\.inUse) }

    final func start(by reader: FileReader) {
        loop.post { [self] in
            guard deadline == nil, !published.withLock(\.isEnded) else { return }
            deadline = Deadline(of: self)
            watches = Set(paths).sorted().map { path in
                FileWatch(
                    path, by: reader, on: loop, confirm: { [weak self] in self?.confirm(path, at: $0) }
                ) { [weak self] in self?.receive($0, of: path) }
            }
            for watch in watches { watch.start() }
        }
    }

    /// Publishes nothing from here on. From any thread.
    final func end(in _: borrowing FilePublication.Turn) {
        published.withLock { $0.isEnded = true }
        stop()
    }

    final func stop() {
        loop.post { [self] in
            for watch in watches { watch.stop() }
            watches = []
            if let deadline { loop.drop(deadline) }
            deadline = nil
        }
    }

    private func receive(_ outcome: FileWatch.Outcome, of path: String) {
        loop.assertIsCurrent()
        switch outcome {
        case .success(let content):
            failing.remove(path)
            guard contents.replace(path, by: content), let deadline else { return }
            changed.insert(path)
            // A certificate and its key change together. Where files are read in intervals, the others would come later.
            for watch in watches { watch.readNow() }
            loop.set(deadline, at: loop.now + TLSFileContents.changeDelay)
        case .failure(let error):
            failing.insert(path)
            logFailure(error.message(path: path))
        }
    }

    /// The file still holds what was reported.
    private func confirm(_ path: String, at instant: Instant) {
        loop.assertIsCurrent()
        guard !failing.contains(path) else { return }
        contents.confirm(path, at: instant)
        published.withLock { [contents] in $0.inUse.confirm(path, as: contents) }
    }

    final override func due(_ deadline: Deadline) {
        loop.assertIsCurrent()
        let paths = changed
        changed = []
        publication.turn { turn in
            guard !published.withLock(\.isEnded) else { return }
            do throws(TLSFileContents.FileError) {
                let used = try use(contents, changed: paths, in: turn)
                published.withLock { [contents] in $0.inUse.adopt(used, from: contents) }
            } catch {
                logFailure(error.message)
            }
        }
    }
}
