import CLanyard.Linux
import Glibc

/// Watches one secret file and tells what it holds: at the start, and after each change of that.
///
/// It looks every two seconds, since a look sees every way in which a file can change, the swaps of symbolic links in any folder above it
/// included, which inotify shows only to who watches each of those folders. Only a changed content counts: a rewrite of the same
/// bytes, or a link that now leads to a copy, is not told; nor is a look that fails for want of descriptors or memory. All state belongs to the loop's queue.
package final class FileWatch: Watcher, @unchecked Sendable {
    package typealias Outcome = Result<SecretFile.Content, SecretFile.Problem>

    /// What `stat` tells apart; nil in `seen` means that the content must be read to know.
    private struct Stamp: Equatable {
        var device: UInt
        var inode: UInt
        var size: Int
        var changed: Int64
        var mode: UInt32
    }

    /// What was told last: a keyed hash of the content, or the problem.
    private enum Told: Equatable {
        case content(Int)
        case problem(SecretFile.Problem)
    }

    /// Between two looks.
    package static let interval = Duration.seconds(2)
    /// A file that changed so shortly before a look may change again without a new time stamp (the kernel's tick).
    private static let tick: Int64 = 100_000_000

    private let path: String
    private let loop: EventLoop
    private let tell: @Sendable (Outcome) -> Void
    private var seen: Stamp?
    private var told: Told?
    private var deadline: Deadline?
    /// A deadline does not hold its owner: a running watch holds itself.
    private var running: FileWatch?
    private var isStopped = false

    /// Does nothing yet. `tell` is called on the loop's queue.
    package init(_ path: String, on loop: EventLoop, tell: @escaping @Sendable (Outcome) -> Void) {
        self.path = path
        self.loop = loop
        self.tell = tell
    }

    /// Begins to look; the first outcome is told soon. Once.
    package func start() {
        loop.post { [self] in
            guard !isStopped, running == nil else { return }
            running = self
            let deadline = Deadline(of: self)
            self.deadline = deadline
            look()
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

    package override func due(_ deadline: Deadline) { look() }

    private func look() {
        guard let deadline, !isStopped else { return }
        loop.set(deadline, at: loop.now + Self.interval)
        let stamp = Self.stamp(path)
        guard stamp == nil || stamp != seen else { return }
        seen = stamp.flatMap { WallTime.now.nanoseconds - $0.changed < Self.tick ? nil : $0 }
        let outcome: Outcome
        do { outcome = .success(try SecretFile.read(path)) } catch { outcome = .failure(error) }
        if told != nil, Self.isShortage(outcome) {
            seen = nil
            return
        }
        let news = Self.told(outcome)
        guard news != told else { return }
        told = news
        tell(outcome)
    }

    /// This process or machine lacks something, which says nothing of the file: what was told holds until a later look can read it.
    private static func isShortage(_ outcome: Outcome) -> Bool {
        guard case .failure(.system(let code)) = outcome else { return false }
        return [EMFILE, ENFILE, ENOMEM].contains(code)
    }

    private static func told(_ outcome: Outcome) -> Told {
        switch outcome {
        case .failure(let problem): return .problem(problem)
        case .success(let content):
            var hasher = Hasher()
            content.secret.withBytes { hasher.combine(bytes: $0) }
            return .content(hasher.finalize())
        }
    }

    private static func stamp(_ path: String) -> Stamp? {
        var status = stat()
        guard stat(path, &status) == 0 else { return nil }
        let changed = Int64(status.st_ctim.tv_sec) * 1_000_000_000 + Int64(status.st_ctim.tv_nsec)
        return Stamp(
            device: status.st_dev, inode: status.st_ino, size: Int(status.st_size), changed: changed,
            mode: status.st_mode)
    }
}
