import Dispatch
import Glibc
import Logging
import Synchronization

/// How the program ends: signals come in, the drain goes by `shutdown:`, the exit status comes out (conventions.md, design §7).
///
/// Belongs to the queue of its own loop.
package final class Stop: Watcher, @unchecked Sendable {
    private enum Stage { case serving, waiting, draining, ended }

    private let loop: EventLoop
    private let settings: ShutdownSettings
    private let path: RequestPath
    private let verbosity: LogVerbosity
    private let log: Logger
    private var stage = Stage.serving
    private var status: Int32 = 0
    private var sources: [any DispatchSourceSignal] = []
    private lazy var deadline = Deadline(of: self)
    private let ended = DispatchSemaphore(value: 0)
    /// Readiness is off from the first signal on.
    let isDraining = Atomic<Bool>(false)

    init(_ settings: ShutdownSettings, path: RequestPath, verbosity: LogVerbosity, log: Logger) throws(Fault) {
        loop = try EventLoop(label: "lanyard.stop")
        self.settings = settings
        self.path = path
        self.verbosity = verbosity
        self.log = log
        super.init()
    }

    /// Signals that must not end the process by themselves, from the first moment on: before any thread.
    static func prepareSignals() {
        for number in [SIGHUP, SIGUSR1, SIGUSR2, SIGPIPE, SIGXFSZ] { signal(number, SIG_IGN) }
    }

    func start() {
        loop.start()
        for number in [SIGTERM, SIGINT, SIGHUP, SIGUSR1] {
            // Until here SIGTERM and SIGINT end the process by themselves: ignored earlier, they would be lost.
            signal(number, SIG_IGN)
            let source = DispatchSource.makeSignalSource(signal: number, queue: loop.queue)
            source.setEventHandler { [self] in
                // A posted block arms the deadlines that it sets.
                loop.post { [self] in take(number) }
            }
            source.activate()
            sources.append(source)
        }
    }

    /// Blocks the calling thread until the end, and says how to exit.
    func wait() -> Int32 {
        ended.wait()
        return status
    }

    private func take(_ number: CInt) {
        switch number {
        case SIGHUP:
            log.notice(
                "nothing was changed: this version reads its configuration at the start only",
                metadata: ["event": "reload.unsupported"])
        case SIGUSR1:
            log.notice(
                "the log level was changed", metadata: ["event": "log.level", "level": "\(verbosity.toggleDebug())"])
        default: end(by: number)
        }
    }

    private func end(by number: CInt) {
        guard stage == .serving else {
            log.warning("a second signal: ending at once", metadata: ["event": "shutdown.forced"])
            return finish()
        }
        status = number == SIGINT ? 130 : settings.exitZeroOnSIGTERM ? 0 : 143
        isDraining.store(true, ordering: .relaxed)
        log.notice(
            "stopping", metadata: ["event": "shutdown.started", "signal": number == SIGINT ? "SIGINT" : "SIGTERM"])
        stage = .waiting
        if settings.drainMin > .zero { loop.set(deadline, at: loop.now + settings.drainMin) } else { drain() }
    }

    private func drain() {
        stage = .draining
        loop.set(deadline, at: loop.now + settings.drainMax)
        path.drain { [self] in loop.post { [self] in finish() } }
    }

    override package func due(_ deadline: Deadline) {
        if stage == .waiting { return drain() }
        log.warning("requests were still under way at drain_max", metadata: ["event": "shutdown.aborted"])
        finish()
    }

    private func finish() {
        guard stage != .ended else { return }
        stage = .ended
        loop.drop(deadline)
        path.abort()
        for source in sources { source.cancel() }
        log.notice("stopped", metadata: ["event": "shutdown.finished", "exit": "\(status)"])
        ended.signal()
    }
}
