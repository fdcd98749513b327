/// Reads one secret file for a caller that needs its content: once it is settled (`FileSettling`), within a time limit.
///
/// It retains itself until it has replied. All state belongs to the loop's queue.
package final class SettledRead: Watcher, @unchecked Sendable {
    private enum Purpose: UInt8, DeadlinePurpose { case limit, nextRead }

    /// For all reads together.
    package static let timeout = Duration.seconds(5)

    private let path: String
    private let files: FileReader
    private let loop: EventLoop
    /// Kept until it was called: once.
    private var reply: ((FileSnapshot.Outcome) -> Void)?
    private var settling = FileSettling()
    private var isReading = false
    private let limit = Deadline(for: Purpose.limit.rawValue)
    private let next = Deadline(for: Purpose.nextRead.rawValue)
    private var running: SettledRead?

    /// Begins at once. `reply` is called once, on the queue of `loop`, never before this returns. Errors after the time limit are
    /// `.delayed` and `.unsettled`.
    package static func begin(
        _ path: String, by files: FileReader, on loop: EventLoop, reply: @escaping (FileSnapshot.Outcome) -> Void
    ) {
        loop.assertIsCurrent()
        let settledRead = SettledRead(path, files, loop, reply)
        settledRead.running = settledRead
        loop.set(settledRead.limit, at: loop.now + timeout)
        settledRead.read()
    }

    private init(
        _ path: String, _ files: FileReader, _ loop: EventLoop, _ reply: @escaping (FileSnapshot.Outcome) -> Void
    ) {
        self.path = path
        self.files = files
        self.loop = loop
        self.reply = reply
        super.init()
        limit.owner = self
        next.owner = self
    }

    package override func due(_ deadline: Deadline) {
        loop.assertIsCurrent()
        switch Purpose(of: deadline) {
        case .limit: giveUp()
        case .nextRead: read()
        }
    }

    private func giveUp() {
        let error: SecretFile.ReadError = isReading ? .delayed : .unsettled
        // The file's watch then reports the content that it reads next, even if it is the content that it reported before.
        files.noteUse(of: path, .failure(error))
        finish(.failure(error))
    }

    private func read() {
        isReading = true
        files.read(at: path, on: loop) { [weak self] in self?.receive($0) }
    }

    private func receive(_ snapshot: FileSnapshot) {
        isReading = false
        guard reply != nil, let outcome = snapshot.outcome else { return }
        if case .failure(let error) = outcome, error.isShortage { return finish(outcome) }
        let finding = FileSettling.Finding(snapshot.stamp, outcome)
        guard settling.accepts(finding, isAtRest: snapshot.stamp?.isAtRest(at: .ofMachine) ?? false) else {
            return loop.set(next, at: loop.now + FileSettling.settlingDelay)
        }
        files.noteUse(of: path, finding.content)
        finish(outcome)
    }

    private func finish(_ outcome: FileSnapshot.Outcome) {
        guard let reply else { return }
        self.reply = nil
        loop.drop(limit)
        loop.drop(next)
        running = nil
        reply(outcome)
    }
}
