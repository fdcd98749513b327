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

/// Loads the configuration again and applies it to the running program: all of it or nothing (architecture-control.md 7.9).
///
/// The files of each reload are read on a thread of its own, because a read can hang. The store is read on its own queue, and nothing here
/// waits for it. One reload runs at a time. Requests that come in that time share the next one, so that a flood of signals costs two. A
/// reload whose files, or whose store, have not been read within 5 s is logged. It ends when another one is requested: the newest
/// configuration wins, and what the former one reads is not used.
final class ReloadCoordinator: Sendable {
    typealias Reply = @Sendable (ReloadOutcome) -> Void

    private struct State {
        /// The configuration that the program runs with.
        var running: LoadedConfiguration
        /// Those who wait for the next reload.
        var waiting: [Reply] = []
        /// The reload in progress; nil: there is none.
        var current: Current?
        /// Reloads so far.
        var count = 0
        /// Reloads that were given up and whose thread or store still reads.
        var abandonedCount = 0
    }

    /// A reload in progress.
    private struct Current {
        enum Step {
            /// Its thread reads the files.
            case readingFiles
            /// The sessions read the store. What was read of the files is applied until then.
            case readingStore(until: Instant)
            /// It changes the running program, and is not given up any more.
            case changing
        }

        let number: Int
        let replies: [Reply]
        let progress: FileProgress
        var step = Step.readingFiles
        /// How often its files were read.
        var readings = 0
        /// Its present step takes longer than it may.
        var isDelayed = false

        /// A later reload may take its place.
        var mayBeAbandoned: Bool {
            if case .changing = step { false } else { isDelayed }
        }
    }

    /// What a thread has read.
    private struct Reading: Sendable {
        let loaded: LoadedConfiguration
        /// nil: there are errors.
        let files: ConfigurationFiles?
        let errors: [String]
        /// The CPU time that it took: with thousands of users the comparison that follows takes as long.
        let work: Duration
    }

    /// Beyond this, later reloads wait until a file that hangs can be read.
    private static let abandonedMax = 8
    /// What was read longer ago is read anew: another file, or the store, has hung, and the first ones may have changed.
    private let readingAgeMax: Duration
    private static let readingsMax = 3

    private let queue = DispatchQueue(label: "lanyard.reload")
    private let state: Guarded<State>
    private let counts: ReloadCounts
    private let load: @Sendable () -> LoadedConfiguration
    private let activation: ActivationRules
    private let log: Logger
    /// Writes the outcome of a reload whatever the level of the log is, which the reload can change.
    private let auditLog: Logger
    private let users: any ReloadableUsers
    private let parts: [any Reloadable]
    private let manager: ServiceManagerReports?
    private let delay: ReloadDelay

    /// - Parameters:
    ///   - running: the configuration of the start.
    ///   - load: reads all sources as the start did.
    ///   - activation: of the sockets that the service manager has passed.
    ///   - parts: in the order in which they commit.
    ///   - manager: is told when a reload begins and ends; nil: there is none.
    ///   - loop: has the deadlines of files that hang.
    ///   - readingAgeMax: how long ago files may have been read that are applied.
    init(
        _ running: LoadedConfiguration, load: @escaping @Sendable () -> LoadedConfiguration,
        activation: ActivationRules, users: any ReloadableUsers, parts: [any Reloadable],
        counts: ReloadCounts = ReloadCounts(), reportingTo manager: ServiceManagerReports? = nil, on loop: EventLoop,
        readingAgeMax: Duration = .seconds(1), log: Logger
    ) {
        (self.users, self.parts, self.counts, self.manager) = (users, parts, counts, manager)
        delay = ReloadDelay(on: loop)
        self.readingAgeMax = readingAgeMax
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
                guard former.mayBeAbandoned, state.abandonedCount < Self.abandonedMax else { return (nil, nil) }
                state.abandonedCount += 1
            }
            state.count += 1
            let begun = Current(number: state.count, replies: state.waiting, progress: FileProgress())
            (state.current, state.waiting) = (begun, [])
            return (former, begun)
        }
        if let abandoned {
            end(abandoned, recordFailure([Self.delayText(abandoned.progress) + "; a later reload takes its place"]))
        }
        guard let begun else { return }
        counts.recordBegin()
        manager?.beginReload()
        readFiles(begun)
    }

    /// On the queue.
    private func readFiles(_ reload: Current) {
        watchDelay(of: reload)
        let code = DetachedThread.start { [self] in
            let reading = reload.progress.noting { readAll() }
            queue.async { [self] in handleFilesRead(reload, reading) }
        }
        if code != 0 {
            complete(reload, recordFailure(["no thread can be started to read the files (\(Errno.text(of: code)))"]))
        }
    }

    /// The files were read: applies them, unless the reload was given up. On the queue.
    private func handleFilesRead(_ reload: Current, _ reading: Reading) {
        let isCurrent = state.withLock { state in
            guard state.current?.number == reload.number else { return false }
            state.current?.step = .readingStore(until: .now + readingAgeMax + reading.work)
            state.current?.readings += 1
            state.current?.isDelayed = false
            return true
        }
        guard isCurrent else { return endAbandoned() }
        watchDelay(of: reload)
        apply(reading, of: reload)
    }

    /// Something that a reload waited for has come after it was given up. On the queue.
    private func endAbandoned() {
        state.withLock { $0.abandonedCount -= 1 }
        beginNext()
    }

    /// Whether the reload may change the running program. Not if it was given up. Not if the store took so long that the files are to be
    /// read anew. From any thread.
    private func begins(_ number: Int) -> Bool {
        state.withLock { state in
            guard let current = state.current, current.number == number, case .readingStore(let end) = current.step
            else { return false }
            guard Instant.now <= end || current.readings >= Self.readingsMax else { return false }
            state.current?.step = .changing
            return true
        }
    }

    /// The current reload has ended. On the queue.
    private func complete(_ reload: Current, _ outcome: ReloadOutcome) {
        state.withLock { $0.current = nil }
        end(reload, outcome)
        beginNext()
    }

    private func end(_ reload: Current, _ outcome: ReloadOutcome) {
        delay.end(reload.number)
        counts.recordEnd(outcome)
        manager?.endReload()
        for reply in reload.replies { reply(outcome) }
    }

    /// Reloads that were given up and whose thread or store still reads. From any thread.
    var abandonedCount: Int { state.withLock(\.abandonedCount) }

    private func watchDelay(of reload: Current) {
        delay.begin(reload.number) { [weak self] in self?.handleDelay(of: reload.number) }
    }

    /// On the queue of the delays' loop.
    private func handleDelay(of number: Int) {
        let progress = state.withLock { state -> FileProgress? in
            guard let current = state.current, current.number == number else { return nil }
            if case .changing = current.step { return nil }
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

    /// The latest reload, if it failed. From any thread.
    var failedReload: ProgramConditions.FailedReload? { counts.failed }

    /// For `/metrics`. From any thread.
    var samples: [MetricSample] { counts.samples }

    /// Reads all files, and reads them anew until all were read within a short time, besides the work for them. On the thread of a
    /// reload.
    private func readAll() -> Reading {
        var readings = 0
        while true {
            let (startedAt, workBefore) = (Instant.now, Machine.threadCPUTime)
            let loaded = load()
            let (files, errors) = read(loaded)
            readings += 1
            let work = Machine.threadCPUTime - workBefore
            if Instant.now - startedAt <= readingAgeMax + work || readings == Self.readingsMax {
                return Reading(loaded: loaded, files: files, errors: errors, work: work)
            }
        }
    }

    private func apply(_ reading: Reading, of reload: Current) {
        let loaded = reading.loaded
        guard let files = reading.files, let configuration = loaded.configuration else {
            return complete(reload, recordFailure(reading.errors))
        }
        let changes = state.withLock { ConfigurationChanges(from: $0.running, to: loaded) }
        guard changes.restartOnly.isEmpty else {
            auditLog.error(
                "nothing was changed: keys of the new configuration need a restart",
                metadata: [
                    "event": "reload.restart_needed", "keys": .string(changes.restartOnly.joined(separator: ", ")),
                ])
            return complete(reload, .restartNeeded(changes.restartOnly))
        }
        if case .file(let path, _) = configuration.store { reload.progress.note(path) }
        let next = NextConfiguration(
            configuration: configuration, files: files, keys: changes.live, log: log)
        do throws(ReloadError) {
            try commit(next, loaded, of: reload, to: users)
        } catch {
            complete(reload, recordFailure([error.message]))
        }
    }

    /// All parts prepare. Then the users take the configuration in one turn of their queue, and the parts with them. Returns at once.
    private func commit(
        _ next: NextConfiguration, _ loaded: LoadedConfiguration, of reload: Current, to users: some ReloadableUsers
    ) throws(ReloadError) {
        var parts: [PreparedPart] = []
        for part in self.parts { parts.append(try part.prepared(for: next)) }
        let prepared = try users.prepare(next)
        users.commit(
            prepared, begins: { [self] in begins(reload.number) },
            serve: { [parts] active in for part in parts { part.commit(active) } },
            reply: { [self, parts] obstacles in
                queue.async { [self] in
                    handleEnd(reload, loaded, next.keys, obstacles) {
                        users.finish(prepared)
                        for part in parts { part.finish() }
                        next.files.logWarnings(to: log)
                    }
                }
            })
    }

    /// The users have taken the configuration, or not. On the queue.
    ///
    /// - Parameters:
    ///   - obstacles: why nothing has changed, each with the remedy; nil: the files were read too long ago.
    ///   - finish: called if all has changed, before those who wait are told.
    private func handleEnd(
        _ reload: Current, _ loaded: LoadedConfiguration, _ keys: [String], _ obstacles: [String]?,
        _ finish: () -> Void
    ) {
        let isCurrent = state.withLock { state in
            guard state.current?.number == reload.number else { return false }
            if obstacles == nil {
                state.current?.step = .readingFiles
                state.current?.isDelayed = false
            }
            return true
        }
        guard isCurrent else { return endAbandoned() }
        guard let obstacles else { return readFiles(reload) }
        guard obstacles.isEmpty else { return complete(reload, recordFailure(obstacles)) }
        finish()
        for warning in loaded.warnings {
            log.warning("\(warning)", metadata: ["event": "configuration.warning", "place": "\(warning.place)"])
        }
        state.withLock { $0.running = loaded }
        auditLog.notice(
            keys.isEmpty ? "the configuration was read again: nothing differs" : "the configuration was reloaded",
            metadata: ["event": "reload.applied", "keys": .string(keys.joined(separator: ", "))])
        complete(reload, .applied(keys))
    }

    private func recordFailure(_ errors: [String]) -> ReloadOutcome {
        for error in errors {
            auditLog.error(
                "the new configuration cannot be used",
                metadata: ["event": "reload.failed", "reason": .string(error)])
        }
        return .invalid(errors)
    }

    /// The files of this configuration, or the errors that `lanyard check` would print for it.
    private func read(_ loaded: LoadedConfiguration) -> (ConfigurationFiles?, errors: [String]) {
        guard let configuration = loaded.configuration else {
            return (nil, loaded.diagnostics.filter { $0.severity != .warning }.map { "\($0)" })
        }
        do throws(ConfigurationError) {
            try activation.check(configuration, loaded.addresses)
        } catch {
            return (nil, ["\(error)"])
        }
        do throws(ConfiguredFileError) {
            let files = try ConfigurationFiles(configuration, running: state.withLock { $0.running.configuration })
            try IdentityLibrary.load(for: configuration.identities)
            switch OpenedStore.inspect(at: configuration.store) {
            case let obstacle?: return (nil, [obstacle.error.message])
            case nil: return (files, [])
            }
        } catch {
            return (nil, [loaded.line(of: error)])
        }
    }
}
