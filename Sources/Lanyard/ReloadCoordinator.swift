import Dispatch
import LanyardAdmin
import LanyardConfiguration
import LanyardFoundations
import LanyardRequestPath
import LanyardSessionInterface
import LanyardSettings
import LanyardTelemetry
import LanyardVault
import Logging

/// Loads the configuration again and applies it to the running program: all of it or nothing (architecture.md 7.9).
///
/// The files of each reload are read on a thread of its own, because a read can hang. One reload runs at a time. Requests that come in
/// that time share the next one, so that a flood of signals costs two. A reload whose files have not been read within 5 s is logged. It
/// ends when another one is requested: the newest configuration wins, and what the former one reads is not used.
final class ReloadCoordinator: Sendable {
    typealias Reply = @Sendable (ReloadOutcome) -> Void

    /// What the files of a new configuration hold.
    struct Files: Sendable {
        let requestPath: RequestPathFiles
        let identityTLS: IdentityTLS
    }

    private struct State {
        /// The configuration that the program runs with.
        var running: LoadedConfiguration
        /// Those who wait for the next reload.
        var waiting: [Reply] = []
        /// The reload in progress; nil: there is none.
        var current: Current?
        /// Reloads so far.
        var count = 0
        /// Threads that still read for a reload that was given up.
        var abandonedThreads = 0
    }

    /// A reload in progress.
    private struct Current {
        let number: Int
        let replies: [Reply]
        let progress: FileProgress
        /// Its files have not been read in time.
        var isDelayed = false
    }

    /// What a thread has read.
    private struct Reading: Sendable {
        let loaded: LoadedConfiguration
        /// nil: there are errors.
        let files: Files?
        let errors: [String]
    }

    /// Beyond this, later reloads wait until a file that hangs can be read.
    private static let abandonedThreadsMax = 8
    /// What was read longer ago is read anew: another file has hung, and the first ones may have changed.
    private static let readingAgeMax = Duration.seconds(1)
    private static let readingsMax = 3

    /// What `/metrics` says of the reloads.
    private struct Counts {
        var successes = 0
        var failures = 0
        /// The load of the start counts.
        var lastSuccessAt = WallTime.now
        /// nil: no reload is in progress.
        var startedAt: Instant?
    }

    private let queue = DispatchQueue(label: "lanyard.reload")
    private let state: Guarded<State>
    /// Apart from `state`, so that a scrape never waits for a comparison of configurations.
    private let counts = Guarded(Counts())
    private let load: @Sendable () -> LoadedConfiguration
    private let activation: ActivationRules
    private let log: Logger
    /// Writes the outcome of a reload whatever the level of the log is, which the reload can change.
    private let auditLog: Logger
    /// Applies a new configuration, of which these live keys differ: users and routes in one turn of the sessions' queue,
    /// then the rest. Returns why it cannot, each with the remedy; then nothing has changed. On the queue. Set before the
    /// first request.
    nonisolated(unsafe) var apply: @Sendable (Configuration, Files, _ keys: [String]) -> [String] = { _, _, _ in [] }
    /// A reload begins. On the queue. Set before the first request.
    nonisolated(unsafe) var onBegin: @Sendable () -> Void = {}
    /// A reload has ended. On the queue. Set before the first request.
    nonisolated(unsafe) var onEnd: @Sendable () -> Void = {}
    private nonisolated(unsafe) var delay: ReloadDelay?

    /// - Parameters:
    ///   - running: the configuration of the start.
    ///   - load: reads all sources as the start did.
    ///   - activation: of the sockets that the service manager has passed.
    init(
        _ running: LoadedConfiguration, load: @escaping @Sendable () -> LoadedConfiguration,
        activation: ActivationRules, log: Logger
    ) {
        state = Guarded(State(running: running))
        self.load = load
        self.activation = activation
        self.log = log
        auditLog = log.forAudit
    }

    /// Has reloads that hang logged. Call before the first request.
    ///
    /// - Parameter loop: has their deadlines.
    func reportDelays(on loop: EventLoop) {
        delay = ReloadDelay(on: loop) { [weak self] in self?.handleDelay(of: $0) }
    }

    /// Requests a reload that begins after this call. From any thread; it does not wait.
    ///
    /// - Parameter reply: called exactly once, on the queue.
    func reload(_ reply: @escaping Reply = { _ in }) {
        let isFirst = state.withLock { state in
            state.waiting.append(reply)
            return state.waiting.count == 1
        }
        if isFirst { queue.async { [self] in beginNext() } }
    }

    /// Begins the reload that others wait for, unless one is in progress that can still be applied soon.
    private func beginNext() {
        dispatchPrecondition(condition: .onQueue(queue))
        let (abandoned, begun) = state.withLock { state -> (Current?, Current?) in
            guard !state.waiting.isEmpty else { return (nil, nil) }
            let former = state.current
            if let former {
                guard former.isDelayed, state.abandonedThreads < Self.abandonedThreadsMax else { return (nil, nil) }
                state.abandonedThreads += 1
            }
            state.count += 1
            let begun = Current(number: state.count, replies: state.waiting, progress: FileProgress())
            (state.current, state.waiting) = (begun, [])
            return (former, begun)
        }
        if let abandoned {
            end(abandoned, failed([Self.delayText(abandoned.progress) + "; a later reload takes its place"]))
        }
        guard let begun else { return }
        counts.withLock { $0.startedAt = .now }
        onBegin()
        delay?.begin(begun.number)
        let code = DetachedThread.start { [self] in
            let reading = begun.progress.noting { readAll() }
            queue.async { [self] in finish(begun, reading) }
        }
        if code != 0 {
            state.withLock { $0.current = nil }
            end(begun, failed(["no thread can be started to read the files (\(Errno.text(of: code)))"]))
        }
    }

    /// The files were read: applies them, unless the reload was given up.
    private func finish(_ reload: Current, _ reading: Reading) {
        let isCurrent = state.withLock { state in
            if state.current?.number == reload.number { return true }
            state.abandonedThreads -= 1
            return false
        }
        if isCurrent {
            let outcome = apply(reading)
            state.withLock { $0.current = nil }
            end(reload, outcome)
        }
        beginNext()
    }

    private func end(_ reload: Current, _ outcome: ReloadOutcome) {
        delay?.end(reload.number)
        record(outcome)
        onEnd()
        for reply in reload.replies { reply(outcome) }
    }

    /// Threads that still read for reloads that were given up. From any thread.
    var abandonedThreadCount: Int { state.withLock(\.abandonedThreads) }

    /// On the queue of the delays' loop.
    private func handleDelay(of number: Int) {
        let progress = state.withLock { state -> FileProgress? in
            guard state.current?.number == number else { return nil }
            state.current?.isDelayed = true
            return state.current?.progress
        }
        guard let progress else { return }
        auditLog.warning(
            "a reload waits for a file; it ends if another reload is requested",
            metadata: ["event": "reload.delayed", "reason": .string(Self.delayText(progress))])
        queue.async { [self] in beginNext() }
    }

    private static func delayText(_ progress: FileProgress) -> String {
        SecretFile.ReadError.delayed.message(path: progress.path ?? "a file")
    }

    private func record(_ outcome: ReloadOutcome) {
        counts.withLock { counts in
            counts.startedAt = nil
            guard case .applied = outcome else { return counts.failures += 1 }
            counts.successes += 1
            counts.lastSuccessAt = .now
        }
    }

    /// For `/metrics`. From any thread.
    var samples: [MetricSample] {
        let counts = counts.withLock { $0 }
        let results = [("success", counts.successes), ("failure", counts.failures)].map { result, count in
            MetricSample(
                "lanyard_config_reloads", suffix: "_total", labels: [.init("result", result)], value: Double(count))
        }
        let success = MetricSample(
            "lanyard_config_last_reload_success_timestamp_seconds",
            value: Double(counts.lastSuccessAt.nanoseconds) / 1e9)
        let running = MetricSample(
            "lanyard_config_reload_running_seconds",
            value: counts.startedAt.map { Double((Instant.now - $0).nanoseconds) / 1e9 } ?? 0)
        return results + [success, running]
    }

    /// Reads all files, and reads them anew until all were read within a short time. On the thread of a reload.
    private func readAll() -> Reading {
        var readings = 0
        while true {
            let startedAt = Instant.now
            let loaded = load()
            let (files, errors) = read(loaded)
            readings += 1
            if Instant.now - startedAt <= Self.readingAgeMax || readings == Self.readingsMax {
                return Reading(loaded: loaded, files: files, errors: errors)
            }
        }
    }

    private func apply(_ reading: Reading) -> ReloadOutcome {
        let loaded = reading.loaded
        guard let files = reading.files, let configuration = loaded.configuration else {
            return failed(reading.errors)
        }
        let changes = state.withLock { ConfigurationChanges(from: $0.running, to: loaded) }
        guard changes.restartOnly.isEmpty else {
            auditLog.error(
                "nothing was changed: keys of the new configuration need a restart",
                metadata: [
                    "event": "reload.restart_needed", "keys": .string(changes.restartOnly.joined(separator: ", ")),
                ])
            return .restartNeeded(changes.restartOnly)
        }
        let obstacles = apply(configuration, files, changes.live)
        guard obstacles.isEmpty else { return failed(obstacles) }
        for warning in loaded.warnings {
            log.warning("\(warning)", metadata: ["event": "configuration.warning", "place": "\(warning.place)"])
        }
        state.withLock { $0.running = loaded }
        auditLog.notice(
            changes.live.isEmpty
                ? "the configuration was read again: nothing differs" : "the configuration was reloaded",
            metadata: ["event": "reload.applied", "keys": .string(changes.live.joined(separator: ", "))])
        return .applied(changes.live)
    }

    private func failed(_ errors: [String]) -> ReloadOutcome {
        for error in errors {
            auditLog.error(
                "the new configuration cannot be used",
                metadata: ["event": "reload.failed", "reason": .string(error)])
        }
        return .invalid(errors)
    }

    /// The files of this configuration, or the errors that `lanyard check` would print for it.
    private func read(_ loaded: LoadedConfiguration) -> (Files?, errors: [String]) {
        guard let configuration = loaded.configuration else {
            return (nil, loaded.diagnostics.filter { $0.severity != .warning }.map { "\($0)" })
        }
        do throws(ConfigurationError) {
            try activation.check(configuration, loaded.addresses)
        } catch {
            return (nil, ["\(error)"])
        }
        do throws(RequestPathFiles.ReadError) {
            let files = try RequestPathFiles(
                configuration, running: state.withLock { $0.running.configuration })
            let identityTLS: IdentityTLS
            do throws(TLSFileContents.FileError) {
                identityTLS = try IdentityTLS(configuration.identities)
            } catch {
                return (nil, [error.message])
            }
            switch OpenedStore.inspect(at: configuration.store) {
            case .forThisUser(let error), .forEveryUser(let error): return (nil, [error.message])
            case nil: return (Files(requestPath: files, identityTLS: identityTLS), [])
            }
        } catch {
            return (nil, [error.message])
        }
    }
}
