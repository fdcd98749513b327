import Dispatch
import Glibc
import LanyardAdmin
import LanyardFoundations
import LanyardRequestPath
import LanyardSettings
import LanyardTelemetry
import Logging
import Synchronization

/// Ends the program: takes signals, drains as `shutdown:` says, and gives the exit status (architecture-control.md 7.5, 7.7).
///
/// Belongs to the queue of its own loop.
package final class ShutdownCoordinator: Watcher, @unchecked Sendable {
    private enum Stage { case serving, waiting, draining, ended }

    let loop: EventLoop
    private var settings: ShutdownSettings
    private let path: RequestPath
    private let verbosity: LogVerbosity
    private let log: Logger
    private var stage = Stage.serving
    private var status: Int32 = 0
    /// Signals within this time after the shutdown has begun mean the same one: service managers, container runtimes and shells send two
    /// of them (SIGTERM to each process of a group, or SIGTERM and SIGINT).
    private static let repetitionInterval = Duration.milliseconds(100)
    /// When the shutdown began. Valid from then on.
    private var startedAt = Instant.past
    /// The instant when `drain_max` has passed. Valid after `wait` has returned.
    private(set) var drainDeadline = Instant.past
    /// A signalfd that was created before the first thread.
    private let signals: OwnedDescriptor
    private lazy var deadline = Deadline(of: self)
    private let ended = DispatchSemaphore(value: 0)
    /// True from the first signal or the admin API's call on. Readiness is off then.
    let isDraining = Atomic<Bool>(false)
    /// True after a second signal: the process ends at once.
    let isForced = Atomic<Bool>(false)
    private let progress = Guarded<ProgramConditions.Stop?>(nil)
    /// nil: `start` follows. What it calls is made after this, because a reload changes this, too.
    private var events: Events?

    /// What the rest of the program does at signals. Called on the loop.
    struct Events: Sendable {
        /// The drain begins.
        let begin: @Sendable () -> Void
        /// SIGHUP.
        let hangUp: @Sendable () -> Void
        /// A second signal, also after the drain.
        let force: @Sendable () -> Void
    }

    init(
        _ settings: ShutdownSettings, signals: consuming OwnedDescriptor, path: RequestPath, verbosity: LogVerbosity,
        log: Logger
    ) throws(SystemError) {
        self.signals = signals
        loop = try EventLoop(label: "lanyard.stop")
        self.settings = settings
        self.path = path
        self.verbosity = verbosity
        self.log = log
        super.init()
    }

    /// From any thread. Once.
    func start(_ events: Events) {
        loop.start()
        loop.post { [self] in
            self.events = events
            listen()
        }
    }

    private func listen() {
        do throws(SystemError) {
            _ = try loop.watch(signals.raw, for: .read, by: self)
        } catch {
            log.critical("signals cannot be watched", metadata: ["event": "start.failed", "reason": "\(error)"])
            status = 1
            finish()
        }
    }

    override package func ready(_ readiness: IOReadiness, on watch: EventLoop.Watch) {
        loop.assertIsCurrent()
        while let number = Signals.next(from: signals) { handle(number) }
    }

    /// Blocks the calling thread until the program has ended. Returns the exit status.
    func wait() -> Int32 {
        ended.wait()
        return status
    }

    private func handle(_ number: CInt) {
        switch number {
        case SIGHUP: events?.hangUp()
        case SIGUSR1:
            let level = verbosity.toggleDebug()
            // Whatever the level: the one from now on may not write notices.
            log.forAudit.notice("the log level was changed", metadata: ["event": "log.level", "verbosity": "\(level)"])
        default: end(by: number)
        }
    }

    /// Replaces `shutdown:`. A drain in progress keeps its end. From any thread.
    func apply(_ settings: ShutdownSettings) {
        loop.post { [self] in self.settings = settings }
    }

    private func end(by number: CInt) {
        guard stage == .serving else {
            guard loop.now >= startedAt + Self.repetitionInterval else {
                return log.info(
                    "a signal within 100 ms of the first one: it changes nothing",
                    metadata: ["event": "shutdown.repeated", "signal": "\(Self.name(of: number))"])
            }
            isForced.store(true, ordering: .relaxed)
            log.warning("a second signal: ending at once", metadata: ["event": "shutdown.forced"])
            events?.force()
            return finish()
        }
        status = number == SIGINT ? 130 : settings.exitZeroOnSIGTERM ? 0 : 143
        begin(["signal": "\(Self.name(of: number))"])
    }

    private static func name(of number: CInt) -> String { number == SIGINT ? "SIGINT" : "SIGTERM" }

    /// Starts the shutdown for the admin API: as SIGTERM, but with status 0. A shutdown in progress is not changed. From any thread.
    func end() {
        // Before the loop's turn: a client that has the response finds readiness off.
        isDraining.store(true, ordering: .relaxed)
        loop.post { [self] in
            guard stage == .serving else { return }
            status = 0
            begin(["reason": "admin"])
        }
    }

    /// How far a shutdown is; nil: none has begun. From any thread.
    var condition: ProgramConditions.Stop? { progress.withLock { $0 } }

    private func begin(_ cause: Logger.Metadata) {
        isDraining.store(true, ordering: .relaxed)
        startedAt = loop.now
        let endsBy = loop.now + settings.drainMin + settings.drainMax
        progress.withLock { $0 = .init(areListenersClosed: false, endsBy: endsBy) }
        events?.begin()
        log.notice("stopping", metadata: cause.merging(["event": "shutdown.started"]) { _, event in event })
        stage = .waiting
        if settings.drainMin > .zero { loop.set(deadline, at: loop.now + settings.drainMin) } else { drain() }
    }

    /// Ends the program because no user can be logged in and the configuration says to exit then. From any thread.
    func endFailedStart(status: Int32) {
        loop.post { [self] in
            guard stage == .serving else { return }
            self.status = status
            isDraining.store(true, ordering: .relaxed)
            log.critical(
                status == 77
                    ? "every configured credential is refused: ending, as login.exit_on_refusal says"
                    : "no first login is possible for now: ending, as login.exit_on_unreachable says",
                metadata: ["event": "start.no_login", "exit": .stringConvertible(status)])
            finish()
        }
    }

    private func drain() {
        stage = .draining
        drainDeadline = loop.now + settings.drainMax
        progress.withLock { [drainDeadline] in $0 = .init(areListenersClosed: true, endsBy: drainDeadline) }
        loop.set(deadline, at: drainDeadline)
        path.drain { [self] in loop.post { [self] in finish() } }
    }

    override package func due(_ deadline: Deadline) {
        loop.assertIsCurrent()
        if stage == .waiting { return drain() }
        log.warning("requests were still in progress at drain_max", metadata: ["event": "shutdown.aborted"])
        finish()
    }

    private func finish() {
        guard stage != .ended else { return }
        stage = .ended
        loop.drop(deadline)
        path.abort()
        // Signals stay watched: one that comes while sessions finish their work ends that wait.
        log.notice("stopped", metadata: ["event": "shutdown.finished", "exit": .stringConvertible(status)])
        ended.signal()
    }
}
