import Logging

/// All rooms put together from one configuration.
final class Program: Sendable {
    private let path: RequestPath
    private let home: SessionHome
    private let identities: EventLoop
    private let stop: Stop
    private let log: Logger
    private let listeners: [ListenerSettings.Address]

    /// Binds everything; no thread starts.
    ///
    /// - Throws: `.configuration` faults for addresses that cannot be had (exit 69), `.local` ones for this machine's.
    init(_ configuration: Configuration, verbosity: LogVerbosity, log: Logger) throws(Fault) {
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
        let active = configuration.activeUser.flatMap { name in configuration.users.firstIndex { $0.name == name } }
        home = try SessionHome(
            Self.members(configuration, on: identities), activeUser: active.map(UserIndex.init),
            refresh: configuration.refresh, publisher: path, logger: log)
        door.lead(to: home)
        stop = try Stop(configuration.shutdown, path: path, verbosity: verbosity, log: log)
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
        identities.start()
        path.start()
        home.start()
        announce()
        let status = stop.wait()
        home.stop()
        return status
    }

    private func announce() {
        log.notice(
            "listening",
            metadata: [
                "event": "listening", "address": "\(listeners.first.map(\.description) ?? "")",
                "listeners": .array(listeners.map { .string($0.description) }), "version": "\(BuildVersion.number)",
                "shards": "\(path.shards.count)",
            ])
    }
}
