import LanyardBroker
import LanyardConfiguration
import LanyardFoundations
import LanyardRequestPath
import LanyardSettings
import LanyardTelemetry
import Logging

/// Applies a new configuration to the request path and to the watches of its files.
final class RequestPathReload: Reloadable {
    private let path: RequestPath
    private let capabilities: CapabilityWatches
    private let fields: FieldFileWatches
    private let upstreamTLS: UpstreamTLSWatches
    private let listenerTLS: ListenerTLSWatches
    private let accessLog: AccessLogSwitch
    private let publication: FilePublication
    private let issued: IssuedTokens

    init(
        _ path: RequestPath, _ secrets: RequestSecretWatches, _ upstreamTLS: UpstreamTLSWatches,
        _ listenerTLS: ListenerTLSWatches, _ accessLog: AccessLogSwitch, _ issued: IssuedTokens,
        by publication: FilePublication
    ) {
        self.issued = issued
        self.publication = publication
        self.path = path
        (capabilities, fields) = (secrets.capabilities, secrets.fields)
        self.upstreamTLS = upstreamTLS
        self.listenerTLS = listenerTLS
        self.accessLog = accessLog
    }

    /// The request path's part of a configuration, with its files. The start makes the request path of it.
    struct Plan: Sendable {
        fileprivate let configuration: Configuration
        fileprivate let files: RequestPathFiles

        var listeners: [ListenerSettings] { configuration.listeners }
        var logsAccess: Bool { configuration.log.logsAccess }
        var upstreamTLS: UpstreamTLS { files.upstreamTLS }
        var listenerTLS: ListenerTLS { files.listenerTLS }
        var capabilityPlaces: [CapabilityPlace] { listeners.capabilityPlaces }
        /// One for each of these places.
        var capabilities: [Secret?] { files.secrets(ofPlaces: capabilityPlaces.count) }
        var fieldFiles: [FieldFile] { configuration.fieldFiles }

        func settings(_ issued: IssuedTokens) -> RequestPath.Settings {
            var settings = RequestPath.Settings(configuration, files.upstreamTLS, files.fieldSecrets)
            settings.granters = listeners.brokers(of: configuration, issued)
            return settings
        }
    }

    /// What the shards get, and what the watches follow from then on.
    struct Prepared: Sendable {
        fileprivate let plan: Plan
        fileprivate let routes: PreparedRoutes
    }

    static func plan(_ next: NextConfiguration) -> Plan { plan(next.configuration, next.files.requestPath, next.log) }

    static func plan(_ configuration: Configuration, _ files: RequestPathFiles, _ log: Logger) -> Plan {
        Plan(configuration: configuration.fittedToDescriptorLimit(log), files: files)
    }

    /// Builds the routes: with thousands of them the sessions would have to wait in `commit`.
    func prepare(_ next: NextConfiguration) -> Prepared { prepare(Self.plan(next)) }

    func prepare(_ plan: Plan) -> Prepared { Prepared(plan: plan, routes: path.prepare(plan.settings(issued))) }

    /// Hands the new routes to the shards, with the active user, and has the watches follow the new files.
    func commit(_ prepared: Prepared, active: UserIndex?) {
        publication.turn { turn in
            fields.follow(prepared.plan.fieldFiles, in: turn)
            serve(prepared, active, in: turn)
        }
    }

    /// Waits for the shards.
    func finish(_ prepared: Prepared) {
        path.waitForShards()
    }

    /// The files were read before the turn: what is in use and was found in the same file later is kept.
    private func serve(_ prepared: Prepared, _ active: UserIndex?, in turn: borrowing FilePublication.Turn) {
        let (listeners, files) = (prepared.plan.listeners, prepared.plan.files)
        let listenerContents = files.listenerTLS.keepingTickets(of: listenerTLS.filesInUse)
            .renewed(from: listenerTLS.contentsInUse)
        let upstreamContents = files.upstreamTLS.renewed(from: [upstreamTLS.contentsInUse])
        let places = prepared.plan.capabilityPlaces
        let capabilityContents = capabilities.renewed(files.capabilities, places)
        let changedListeners = listenerTLS.changes(listenerContents, listeners)
        let targets = path.serve(
            prepared.routes, active: active,
            capabilities: capabilityContents.mapValues { $0?.secret }, listenerTLS: changedListeners,
            upstreamTLS: upstreamTLS.changes(upstreamContents), latestTLS: upstreamContents.contexts,
            accessLines: accessLog.lines(prepared.plan.logsAccess))
        capabilities.follow(places, capabilityContents, in: turn)
        listenerTLS.follow(listenerContents, listeners, changedListeners, in: turn)
        upstreamTLS.follow(upstreamContents, of: targets, in: turn)
    }
}

/// Where the access log goes. Its rings are made when it is switched on for the first time, and used again when it is switched on
/// later or gets another format.
final class AccessLogSwitch: Sendable {
    private let pipe: LogPipe
    private let shardCount: Int
    private let made = Guarded<[LineRing]?>(nil)

    init(_ pipe: LogPipe, shardCount: Int) {
        self.pipe = pipe
        self.shardCount = shardCount
    }

    /// One for each shard, in the present format of the log; nil: the access log is off.
    func lines(_ isOn: Bool) -> [AccessLines]? {
        guard isOn else { return nil }
        let rings = made.withLock { made in
            let rings = made ?? (0..<shardCount).map { _ in pipe.makeRing() }
            made = rings
            return rings
        }
        let format = pipe.format
        return rings.map { AccessLines($0, format, hasPriorities: pipe.hasPriorities) }
    }
}

extension RequestPath.Settings {
    /// - Parameter fieldSecrets: of the files of `set_headers` that the running configuration does not name.
    init(_ configuration: Configuration, _ upstreamTLS: UpstreamTLS, _ fieldSecrets: [String: Secret] = [:]) {
        self.init(
            listeners: configuration.listeners, routes: configuration.routes.map { ($0.route, $0.upstream) },
            upstreamTLS: upstreamTLS.contexts, fieldSecrets: fieldSecrets, limits: configuration.limits,
            tokenWaitMax: configuration.refresh.waitMax, loginRequiredStatus: configuration.loginRequiredStatus,
            drainMax: configuration.shutdown.drainMax)
        proxyAuthorizations = upstreamTLS.proxies.values
    }
}

extension Configuration {
    /// Names of the routes whose upstreams are not verified.
    var unverifiedRoutes: [String] { routes.filter(\.skipsVerification).map(\.route.name) }

    /// Descriptors for health and admin connections, event loops, files and identity calls.
    /// Each identity service has an event loop with four; there is room for eight. A static identity has none.
    private var descriptorsKept: Int {
        let services = identities.count { if case .staticToken = $0.kind { false } else { true } }
        return 200 + 4 * max(services - 8, 0)
    }

    /// Fits the limits to the descriptor limit. Each client needs two descriptors: its own and one for its upstream connection.
    ///
    /// All descriptors that clients do not use are for upstream connections. No more of those are in use than there are clients, and the
    /// rest is for idle ones.
    func fittedToDescriptorLimit(_ log: Logger) -> Configuration {
        var configuration = self
        let descriptors = Machine.raiseDescriptorLimit()
        let connectionsMax = max((descriptors - descriptorsKept) / 2, 16)
        if configuration.limits.connectionsMax > connectionsMax {
            log.warning(
                "limits.connections_max is lowered: two descriptors for each connection are more than ulimit -n allows",
                metadata: [
                    "event": "limits.lowered", "connections_max": .stringConvertible(connectionsMax),
                    "descriptors": .stringConvertible(descriptors),
                ])
            configuration.limits.connectionsMax = connectionsMax
        }
        configuration.limits.upstreamConnectionsMax = max(
            descriptors - descriptorsKept - configuration.limits.connectionsMax, connectionsMax)
        return configuration
    }
}
