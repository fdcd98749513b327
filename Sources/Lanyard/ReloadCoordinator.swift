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
/// Files are read on a queue of their own, because a read can hang. One reload runs at a time. Requests that come meanwhile share the
/// next one, so that a flood of signals costs two.
final class ReloadCoordinator: Sendable {
    typealias Reply = @Sendable (ReloadOutcome) -> Void

    private struct State {
        /// The configuration that the program runs with.
        var running: LoadedConfiguration
        /// A reload is on the queue and has not begun.
        var isScheduled = false
        /// Those who wait for that reload.
        var replies: [Reply] = []
    }

    /// What `/metrics` says of the reloads.
    private struct Counts {
        var successes = 0
        var failures = 0
        /// The load of the start counts.
        var lastSuccessAt = WallTime.now
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
    /// Applies the users and identities of a new configuration. Returns why it cannot, each with the remedy; then
    /// nothing has changed. On the queue, before `apply`. Set before the first request.
    nonisolated(unsafe) var applySessions: @Sendable (Configuration, IdentityTLS) -> [String] = { _, _ in [] }
    /// Takes the removed users away. On the queue, after `apply`: no route names them any more. Set before the first
    /// request.
    nonisolated(unsafe) var retireRemovedUsers: @Sendable () -> Void = {}
    /// Applies a new configuration, of which these live keys differ. On the queue. Set before the first request.
    nonisolated(unsafe) var apply: @Sendable (Configuration, RequestPathFiles, _ keys: [String]) -> Void = { _, _, _ in
    }
    /// A reload begins. On the queue. Set before the first request.
    nonisolated(unsafe) var onBegin: @Sendable () -> Void = {}
    /// A reload has ended. On the queue. Set before the first request.
    nonisolated(unsafe) var onEnd: @Sendable () -> Void = {}

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

    /// Requests a reload that begins after this call. From any thread; it does not wait.
    ///
    /// - Parameter reply: called exactly once, on the queue.
    func reload(_ reply: @escaping Reply = { _ in }) {
        let isFirst = state.withLock { state in
            state.replies.append(reply)
            defer { state.isScheduled = true }
            return !state.isScheduled
        }
        if isFirst { queue.async { [self] in run() } }
    }

    private func run() {
        let replies = state.withLock { state in
            defer { state.replies = [] }
            state.isScheduled = false
            return state.replies
        }
        onBegin()
        let outcome = perform()
        record(outcome)
        onEnd()
        for reply in replies { reply(outcome) }
    }

    private func record(_ outcome: ReloadOutcome) {
        counts.withLock { counts in
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
        return results + [success]
    }

    private func perform() -> ReloadOutcome {
        let loaded = load()
        let (files, identityTLS, errors) = read(loaded)
        guard let files, let identityTLS, let configuration = loaded.configuration else { return failed(errors) }
        let changes = state.withLock { ConfigurationChanges(from: $0.running, to: loaded) }
        guard changes.restartOnly.isEmpty else {
            auditLog.error(
                "nothing was changed: keys of the new configuration need a restart",
                metadata: [
                    "event": "reload.restart_needed", "keys": .string(changes.restartOnly.joined(separator: ", ")),
                ])
            return .restartNeeded(changes.restartOnly)
        }
        let obstacles = applySessions(configuration, identityTLS)
        guard obstacles.isEmpty else { return failed(obstacles) }
        for warning in loaded.warnings {
            log.warning("\(warning)", metadata: ["event": "configuration.warning", "place": "\(warning.place)"])
        }
        apply(configuration, files, changes.live)
        retireRemovedUsers()
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
    private func read(_ loaded: LoadedConfiguration) -> (RequestPathFiles?, IdentityTLS?, errors: [String]) {
        guard let configuration = loaded.configuration else {
            return (nil, nil, loaded.diagnostics.filter { $0.severity != .warning }.map { "\($0)" })
        }
        do throws(ConfigurationError) {
            try activation.check(configuration, loaded.addresses)
        } catch {
            return (nil, nil, ["\(error)"])
        }
        do throws(RequestPathFiles.ReadError) {
            let files = try RequestPathFiles(
                configuration, running: state.withLock { $0.running.configuration })
            let identityTLS: IdentityTLS
            do throws(TLSFileContents.FileError) {
                identityTLS = try IdentityTLS(configuration.identities)
            } catch {
                return (nil, nil, [error.message])
            }
            switch OpenedStore.inspect(at: configuration.store) {
            case .forThisUser(let error), .forEveryUser(let error): return (nil, nil, [error.message])
            case nil: return (files, identityTLS, [])
            }
        } catch {
            return (nil, nil, [error.message])
        }
    }
}
