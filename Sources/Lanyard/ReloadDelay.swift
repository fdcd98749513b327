import LanyardFoundations

/// Reports a step of a reload that takes longer than a file may take. All state belongs to the loop's queue.
final class ReloadDelay: Watcher, @unchecked Sendable {
    /// A step in progress.
    private struct Step {
        let number: Int
        let report: @Sendable () -> Void
    }

    private let loop: EventLoop
    private var step: Step?
    private lazy var deadline = Deadline(of: self)

    init(on loop: EventLoop) {
        self.loop = loop
        super.init()
    }

    /// A step of this reload begins. From any thread.
    ///
    /// - Parameter report: called on the loop's queue, at most once.
    func begin(_ number: Int, report: @escaping @Sendable () -> Void) {
        loop.post { [self] in
            step = Step(number: number, report: report)
            loop.set(deadline, at: loop.now + FileWatch.readTimeout)
        }
    }

    /// This reload has ended. From any thread.
    func end(_ number: Int) {
        loop.post { [self] in
            guard step?.number == number else { return }
            step = nil
            loop.drop(deadline)
        }
    }

    override func due(_ deadline: Deadline) {
        loop.assertIsCurrent()
        step?.report()
    }
}
