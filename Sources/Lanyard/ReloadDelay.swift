import LanyardFoundations

/// Reports a step of a reload that takes longer than a file may take. All state belongs to the loop's queue.
final class ReloadDelay: Watcher, @unchecked Sendable {
    private let loop: EventLoop
    private let report: @Sendable (_ number: Int) -> Void
    private var number = 0
    private lazy var deadline = Deadline(of: self)

    /// - Parameter report: called on the loop's queue, at most once for each step.
    init(on loop: EventLoop, report: @escaping @Sendable (_ number: Int) -> Void) {
        (self.loop, self.report) = (loop, report)
        super.init()
    }

    /// A step of this reload begins. From any thread.
    func begin(_ number: Int) {
        loop.post { [self] in
            self.number = number
            loop.set(deadline, at: loop.now + FileWatch.readTimeout)
        }
    }

    /// This reload has ended. From any thread.
    func end(_ number: Int) {
        loop.post { [self] in if self.number == number { loop.drop(deadline) } }
    }

    override func due(_ deadline: Deadline) { report(number) }
}
