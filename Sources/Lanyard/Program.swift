import LanyardAdmin
import LanyardBroker
import LanyardConfiguration
import LanyardFoundations
import LanyardIdentity
import LanyardRequestPath
import LanyardSessionInterface
import LanyardSessions
import LanyardSettings
import LanyardTelemetry
import LanyardVault
import Logging
import Synchronization

/// The running program: all modules, connected as one configuration says.
final class Program: Sendable {
    private let path: RequestPath
    private let sessions: SessionService
    private let store: any SessionStore
    /// Of watches of files. Identity calls have loops of their own.
    private let fileLoop: EventLoop
    private let sources: SessionSources
    private let memory: MemoryTrimmer
    private let readers: ProgramFileReaders
    private let secrets: RequestSecretWatches
    private let upstreamTLS: UpstreamTLSWatches
    private let listenerTLS: ListenerTLSWatches
    private let identityTLS: IdentityTLSWatches
    private let stop: ShutdownCoordinator
    /// Health and admin.
    private let operatorLoop: EventLoop
    private let health: HealthListener?
    /// For the service manager; nil: there is none.
    private let reports: ServiceManagerReports?
    private let admin: AdminListener?
    private let recent: RecentRequests
    private let certificateWarnings: CertificateWarnings
    private let reloads: ReloadCoordinator
    private let log: Logger
    /// All bound addresses with their names in the log.
    private let listeners: [ProgramInfo.Listener]

    /// Reads all sources of the configuration again, and what a reload compares them with.
    struct Loading: Sendable {
        let loaded: LoadedConfiguration
        let load: @Sendable () -> LoadedConfiguration
        /// Of the sockets that the service manager has passed.
        let activation: ActivationRules
    }

    /// Creates queues. No thread runs before `serve`.
    ///
    /// - Parameters:
    ///   - first: the configuration of the start, with its files.
    ///   - store: the opened store; the sessions own it from here on.
    ///   - signals: a signalfd.
    ///   - manager: the service manager; nil: there is none.
    /// - Throws: descriptors cannot be created.
    init(
        _ first: NextConfiguration, store opened: OpenedStore, loading: Loading,
        bindings: consuming Bindings, signals: consuming OwnedDescriptor, pipe: LogPipe, verbosity: LogVerbosity,
        manager: ServiceManager?, commit: String
    ) throws(SystemError) {
        let (configuration, log) = (first.configuration, first.log)
        self.log = log
        let (plan, issued) = (RequestPathReload.plan(first), IssuedTokens(log: log))
        listeners = bindings.listeners
        let tokenSource = SessionTokenSource()
        // Configured users come first, so that a user's index is its position in the configuration.
        let names = UserNames(configuration.users.map(\.name))
        let shardCount = configuration.shards ?? Machine.shardCount
        let accessLog = AccessLogSwitch(pipe, shardCount: shardCount)
        path = try RequestPath(
            plan.settings(issued), sockets: bindings.data, capabilities: plan.capabilities,
            listenerTLS: plan.listenerTLS.contexts, names: names, shardCount: shardCount, source: tokenSource,
            accessLines: accessLog.lines(plan.logsAccess), log: log)
        fileLoop = try EventLoop(label: "lanyard.files")
        readers = ProgramFileReaders(on: fileLoop)
        let (publication, changes) = (FilePublication(), readers.changes)
        secrets = RequestSecretWatches(plan, for: path, by: publication, reading: readers, on: fileLoop, log: log)
        upstreamTLS = UpstreamTLSWatches(
            plan.upstreamTLS, of: path.targets, by: publication, noticing: changes, on: fileLoop, log: log)
        listenerTLS = ListenerTLSWatches(
            plan.listenerTLS, plan.listeners, for: path, by: publication, noticing: changes, on: fileLoop, log: log)
        memory = MemoryTrimmer(of: path.buffers, on: fileLoop)
        let warning = SecretFileWarning(warnedPaths: configuration.openSecretFiles)
        identityTLS = IdentityTLSWatches(by: publication, noticing: changes, on: fileLoop, log: log)
        sources = SessionSources(by: readers.credentials, on: fileLoop, warning, identityTLS)
        let made = try sources.prepare(configuration, first.files.identityTLS)
        sources.use(made)
        store = try opened.store(log: log)
        let stop = try ShutdownCoordinator(
            ShutdownCoordinator.prepare(first), signals: signals, path: path, verbosity: verbosity, log: log)
        self.stop = stop
        sessions = try SessionService(
            made.configuration.users, identities: made.configuration.identities, names: names,
            settings: made.configuration.settings, store: store, contents: opened.contents, subscribers: [path],
            logger: log, onFailedStart: { stop.endFailedStart(status: $0) })
        tokenSource.connect(to: sessions)
        let (refused, counts) = (AdminRefusalCounters(), ReloadCounts())
        let healthSources = Self.healthSources(
            sessions, store, path, stop, pipe, refused, counts, identityTLS, issued,
            configuration.health ?? HealthSettings())
        let operatorLoop = try EventLoop(label: "lanyard.operators")
        self.operatorLoop = operatorLoop
        let reports = manager.map {
            ServiceManagerReports(
                to: $0, on: operatorLoop, snapshot: healthSources.snapshot, controlPlane: healthSources.controlPlane)
        }
        self.reports = reports
        let health = bindings.health.map { socket in
            let pages = HealthPages(healthSources, version: BuildVersion.number, commit: commit)
            return HealthListener(
                socket, loop: operatorLoop, pages: pages, allowedHosts: HealthListener.prepare(first), log: log)
        }
        self.health = health
        let shown = AdminReload(AdminReload.prepare(first))
        let requests = RequestPathReload(
            path, secrets, upstreamTLS, listenerTLS, accessLog, issued, by: publication)
        // The format of the log goes first: the shards get their access log in it.
        let parts: [(any Reloadable)?] = [pipe, requests, shown, stop, health, verbosity]
        let reloads = ReloadCoordinator(
            loading.loaded, load: loading.load, activation: loading.activation,
            users: SessionReload(sessions, sources), parts: parts.compactMap(\.self), counts: counts,
            reportingTo: reports, on: operatorLoop, log: log)
        self.reloads = reloads
        let recent = RecentRequests(of: path, on: fileLoop)
        self.recent = recent
        let conditions = Self.conditions(
            store: store, path: path, stop: stop, reloads: reloads, sources: sources, shown: shown, self.upstreamTLS,
            self.listenerTLS, self.identityTLS)
        certificateWarnings = CertificateWarnings(on: fileLoop, log: log) { conditions().certificates }
        let info = ProgramInfo(
            version: BuildVersion.number, startedAt: .now, listeners: listeners,
            unverifiedRoutes: { shown.unverifiedRoutes },
            conditions: conditions,
            activity: Self.activity(recent, path, sources, counts, storePath: configuration.store.path),
            readiness: { HealthReport(healthSources.snapshot()) })
        admin = bindings.admin.map { [sessions, sources, readers] socket in
            AdminListener(
                socket, loop: operatorLoop, tokenFile: configuration.admin?.tokenFile, by: readers.ofAdmin(),
                users: sessions, info: info, exposesTokens: configuration.admin?.exposesTokens ?? false,
                refused: refused, browserLogins: { sources.browserLogin(of: $0, at: $1) },
                control: ProcessControl(
                    stop: { stop.end() }, reload: { reloads.reload($0) }, verbosity: verbosity,
                    log: pipe.tap), log: log)
        }
    }

    /// What `/v1/status` says beside the users: snapshots, so that it never waits.
    private static func conditions(
        store: any SessionStore, path: RequestPath, stop: ShutdownCoordinator, reloads: ReloadCoordinator,
        sources: SessionSources, shown: AdminReload, _ upstreamTLS: UpstreamTLSWatches,
        _ listenerTLS: ListenerTLSWatches,
        _ identityTLS: IdentityTLSWatches
    ) -> @Sendable () -> ProgramConditions {
        {
            var conditions = ProgramConditions()
            conditions.stop = stop.condition
            conditions.clientConnectionCount = path.clientConnectionCount
            conditions.storeFailure = store.failure
            conditions.failedReload = reloads.failedReload
            conditions.slowCalls = sources.slowCalls
            let (configured, effective) = (shown.connectionsMax, path.clientConnections.max)
            if configured > effective, let descriptorsMax = ProcessMetrics.descriptorsMax {
                conditions.loweredLimit = .init(
                    configured: configured, effective: effective, descriptorsMax: descriptorsMax)
            }
            let ofListeners = zip(path.listenerCertificates, listenerTLS.certificateFiles).compactMap { end, file in
                end.expiresAt.flatMap { expiresAt in
                    file.map {
                        ProgramConditions.Certificate(
                            owner: "listener \(end.address)", file: $0, expiresAt: expiresAt)
                    }
                }
            }
            conditions.certificates =
                ofListeners + upstreamTLS.certificates + identityTLS.certificates + sources.certificates
            return conditions
        }
    }

    /// What `/v1/status` says of requests, identity services and the process: snapshots, so that it never waits.
    private static func activity(
        _ recent: RecentRequests, _ path: RequestPath, _ sources: SessionSources, _ reloads: ReloadCounts,
        storePath: String?
    ) -> @Sendable () -> ProgramActivity {
        {
            let now = Instant.now
            var activity = ProgramActivity()
            activity.routes = recent.routes(at: now)
            activity.withoutRoute = activity.routes.removeLast()
            let (parked, connections) = (path.parkedRequests, path.clientConnections)
            activity.parked = .init(parked.count, of: parked.max)
            activity.clientConnections = .init(connections.count, of: connections.max)
            activity.http2 = path.http2Report
            activity.identities = sources.identities
            if let max = ProcessMetrics.descriptorsMax {
                // Counting takes a descriptor. If none is left, all are open.
                let open = ProcessMetrics.openDescriptors ?? (DescriptorShortage.shared.isExhausted ? max : nil)
                activity.descriptors = open.map { .init($0, of: max) }
            }
            activity.descriptorShortageAt = DescriptorShortage.shared.latestShortage.map { WallTime.now + ($0 - now) }
            activity.storePath = storePath
            activity.reloadedAt = reloads.latestSuccess
            return activity
        }
    }

    /// The data of health and `/metrics`: snapshots and relaxed counters, so that they never wait.
    private static func healthSources(
        _ sessions: SessionService, _ store: any SessionStore, _ path: RequestPath, _ stop: ShutdownCoordinator,
        _ pipe: LogPipe, _ refused: AdminRefusalCounters, _ reloads: ReloadCounts, _ identityTLS: IdentityTLSWatches,
        _ issued: IssuedTokens, _ health: HealthSettings
    ) -> HealthPages.Sources {
        HealthPages.Sources(
            snapshot: {
                let users = path.usersOfRoutes
                var snapshot = HealthSnapshot(
                    sessions.report, followsActiveUser: users.followsActive, pinnedUsers: users.pinned)
                if store.isFailing { snapshot.store = .failing }
                snapshot.isDraining = stop.isDraining.load(ordering: .relaxed)
                return snapshot
            },
            samples: {
                let dropped = MetricSample(
                    "lanyard_log_lines_dropped", suffix: "_total", value: Double(pipe.droppedLines))
                var samples = path.samples(perRoute: health.metricsPerRoute)
                samples += sessions.report.samples(perUser: health.metricsPerUser)
                samples += refused.samples + reloads.samples + identityTLS.samples
                if health.metricsPerUser { samples += issued.samples }
                samples += [dropped, MetricsPage.nothingLeftOut]
                return samples
            },
            controlPlane: { sessions.loop.post($0) })
    }

    /// Serves until a signal ends it; returns the exit status.
    func serve() -> Int32 {
        stop.start(
            ShutdownCoordinator.Events(
                begin: { [reports] in reports?.beginDrain() }, hangUp: { [reloads] in reloads.reload() },
                force: { [sessions, store] in
                    sessions.endDrain()
                    store.endClose()
                }))
        operatorLoop.start()
        health?.start()
        fileLoop.start()
        memory.start()
        sources.start()
        recent.start()
        certificateWarnings.start()
        path.start(active: sessions.report.activeUser)
        secrets.start()
        upstreamTLS.start()
        listenerTLS.start()
        identityTLS.start()
        sessions.start()
        // After the sessions: no operator is told that a stored one is logged out.
        admin?.start()
        announce()
        reports?.start()
        let status = stop.wait()
        recent.stop()
        certificateWarnings.stop()
        secrets.stop()
        upstreamTLS.stop()
        listenerTLS.stop()
        identityTLS.stop()
        // Logins that wait for a file end here. A thread that is blocked in a file call is left running.
        readers.stop()
        if !stop.isForced.load(ordering: .relaxed) {
            // The supervisor of the process often allows no more time than `drain_max`.
            let left = stop.drainDeadline - .now
            sessions.drain(within: .seconds(5), operators: min(left, .seconds(10)), rotations: left)
        }
        sessions.stop()
        sessions.waitForEnd(within: .seconds(1))
        if !stop.isForced.load(ordering: .relaxed) { store.close(within: .seconds(2)) }
        admin?.stop()
        health?.stop()
        operatorLoop.stop()
        return status
    }

    /// Logs one line for each bound address. With port 0 an operator learns the port here.
    private func announce() {
        log.notice(
            "serving",
            metadata: [
                "event": "serving", "version": .string(BuildVersion.number),
                "shards": .stringConvertible(path.shards.count),
            ])
        for listener in listeners {
            log.notice(
                "listening",
                metadata: [
                    "event": "listening", "listener": .string(listener.name), "address": .string(listener.address),
                ])
        }
    }
}

/// A token source that forwards to the sessions.
final class SessionTokenSource: TokenSource {
    /// nil: the program is being made, and nothing runs. Set late because the request path and the sessions need one another: the sessions
    /// publish to the request path, which is made first.
    private let target = Guarded<(any TokenSource)?>(nil)

    func connect(to source: any TokenSource) { target.withLock { $0 = source } }

    /// Not on the path of most requests: a shard calls this only when it has no usable token.
    func tokenNeeded(by user: UserIndex) { target.withLock { $0 }?.tokenNeeded(by: user) }

    func tokenRefused(by user: UserIndex, generation: UInt64, number: RefusalNumber) {
        target.withLock { $0 }?.tokenRefused(by: user, generation: generation, number: number)
    }

    func refreshDenied(by user: UserIndex) { target.withLock { $0 }?.refreshDenied(by: user) }

    func freshTokenRefused(by user: UserIndex, generation: UInt64) {
        target.withLock { $0 }?.freshTokenRefused(by: user, generation: generation)
    }
}
