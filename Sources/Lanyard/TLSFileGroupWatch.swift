import LanyardFoundations
import LanyardRequestPath

/// Watches the TLS files of one listener or identity, and reports their contents together when no file has changed for a moment.
///
/// A subclass uses them. All mutable state belongs to the loop's queue.
class TLSFileGroupWatch: Watcher, @unchecked Sendable {
    private let paths: [String]
    private let loop: EventLoop
    /// As the watches have reported them.
    private var contents: TLSFileContents
    private var watches: [FileWatch] = []
    private var deadline: Deadline?

    /// - Parameter contents: as the files were read before.
    init(_ paths: [String], _ contents: TLSFileContents, on loop: EventLoop) {
        (self.paths, self.contents, self.loop) = (paths, contents, loop)
        super.init()
    }

    /// Uses changed contents, on the loop's queue. A thrown error is logged by `logFailure`.
    func use(_ contents: TLSFileContents) throws(TLSFileContents.FileError) {}

    /// Logs why the files cannot be used, on the loop's queue.
    func logFailure(_ reason: String) {}

    final func start(by reader: FileReader) {
        loop.post { [self] in
            guard deadline == nil else { return }
            deadline = Deadline(of: self)
            watches = Set(paths).sorted().map { path in
                FileWatch(path, by: reader, on: loop) { [weak self] in self?.receive($0, of: path) }
            }
            for watch in watches { watch.start() }
        }
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
        switch outcome {
        case .success(let content):
            guard contents.replace(path, by: content.secret), let deadline else { return }
            loop.set(deadline, at: loop.now + TLSFileContents.changeDelay)
        case .failure(let error): logFailure(error.message(path: path))
        }
    }

    final override func due(_ deadline: Deadline) {
        do throws(TLSFileContents.FileError) { try use(contents) } catch { logFailure(error.message) }
    }
}
