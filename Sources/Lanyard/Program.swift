import Logging
import Synchronization

/// All rooms put together from one configuration.
final class Program: Sendable {
    private let path: RequestPath
    private let active: UserIndex?
    private let home: SessionHome
    private let identities: EventLoop
    private let stop: Stop
    private let health: HealthListener?
    private let log: Logger
    private let listeners: [ListenerSettings.Address]

    /// Binds everything; no thread starts.
    ///
    /// - Throws: `.configuration` faults for addresses that cannot be had (exit 69), `.local` ones for this machine's.
    init(_ configuration: Configuration, pipe: LogPipe, verbosity: LogVerbosity, log: Logger) throws(Fault) {
        self.log = log
        var sockets: [ListeningSocket] = []
        for settings in configuration.listeners { sockets.append(try ListeningSocket(settings)) }
        listeners = sockets.map(\.address)
        let door = TokenSourceDoor()
        path = try RequestPath(
            listeners: configuration.listeners, sockets: sockets,
            routes: configuration.routes.map { ($0.route, $0.upstream) }, users: configuration.users.map(\.name),
            limits: configuration.limits, tokenWaitMax: configuration.refresh.waitMax,
            loginRequiredStatus: configuration.loginRequiredStatus,
            shardCount: configuration.shards ?? Machine.shardCount, source: door, log: log)
        identities = try EventLoop(label: "lanyard.identities")
        active = configuration.activeUser.flatMap { name in
            configuration.users.firstIndex { $0.name == name }.map(UserIndex.init)
        }
        home = try SessionHome(
            Self.members(configuration, on: identities), activeUser: active,
            refresh: configuration.refresh, publisher: path, logger: log)
        door.lead(to: home)
        stop = try Stop(configuration.shutdown, path: path, verbosity: verbosity, log: log)
        let sources = Self.healthSources(configuration, home: home, path: path, stop: stop, pipe: pipe)
        health = try configuration.health.map { settings throws(Fault) in
            let pages = HealthPages(sources, version: BuildVersion.number, commit: BuildVersion.commit)
            return HealthListener(
                try ListeningSocket(ListenerSettings(address: settings.address)),
                loop: try EventLoop(label: "lanyard.health"), pages: pages, log: log)
        }
    }

    /// What health and `/metrics` are told from: snapshots and relaxed counters, so that they wait for nobody.
    private static func healthSources(
        _ configuration: Configuration, home: SessionHome, path: RequestPath, stop: Stop, pipe: LogPipe
    ) -> HealthPages.Sources {
        let pinned = configuration.routes.compactMap(\.route.user)
        let follows = configuration.routes.contains { $0.route.user == nil }
        return HealthPages.Sources(
            facts: {
                var facts = HealthFacts(home.report, followsActiveUser: follows, pinnedUsers: pinned)
                facts.isDraining = stop.isDraining.load(ordering: .relaxed)
                return facts
            },
            samples: {
                let dropped = MetricSample(
                    "lanyard_log_lines_dropped", suffix: "_total", value: Double(pipe.droppedLines))
                return path.samples + home.report.samples + [dropped]
            },
            controlPlane: { home.loop.post($0) })
    }

    /// Each user with its identity service; users of one identity share one.
    private static func members(_ configuration: Configuration, on loop: EventLoop) -> [SessionMember] {
        var services: [String: AppServicesIdentity] = [:]
        return configuration.users.compactMap { user in
            guard let identity = configuration.identities.first(where: { $0.name == user.identity }) else { return nil }
            switch identity.kind {
            case .fixed(let tokenFile):
                return SessionMember(
                    user, source: .feed(StaticIdentity(name: user.name, tokenFile: tokenFile, on: loop)))
            case .appServices(let app):
                let service =
                    services[identity.name]
                    ?? AppServicesIdentity(identity, app: app, version: BuildVersion.number, on: loop)
                services[identity.name] = service
                return SessionMember(user, source: .service(service), credential: CredentialFileWatch(on: loop))
            }
        }
    }

    /// Serves until a signal ends it; returns the exit status.
    func serve() -> Int32 {
        stop.start()
        health?.start()
        identities.start()
        path.start(active: active)
        home.start()
        announce()
        let status = stop.wait()
        home.stop()
        health?.stop()
        return status
    }

    /// One line for each address, as it was bound: with port 0 this is where an operator learns it.
    private func announce() {
        log.notice(
            "serving",
            metadata: [
                "event": "serving", "version": .string(BuildVersion.number),
                "shards": .stringConvertible(path.shards.count),
            ])
        var bound = listeners.map { ("data", $0) }
        if let health { bound.append(("health", health.address)) }
        for (listener, address) in bound {
            log.notice(
                "listening",
                metadata: [
                    "event": "listening", "listener": .string(listener), "address": .string(address.description),
                ])
        }
    }
}
