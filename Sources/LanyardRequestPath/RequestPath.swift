import Dispatch
import LanyardFoundations
import LanyardSettings
import Logging
import Synchronization

/// The request path as one value: listening sockets, shards, upstreams (architecture.md 2.1). The program makes one.
///
/// Order of use: bind the sockets, create it, `start`, publish tokens, `drain` or `abort`.
package final class RequestPath: TokenSubscriber, DescriptorHolder {
    package let shards: [Shard]
    private let sockets: Guarded<[ListeningSocket]>
    let acceptors: [[Acceptor]]
    let context: ExchangeContext
    let resolver = Resolver()
    let names: UserNames
    /// What the shards serve: one for each of them.
    let served: Guarded<[ShardRoutes]>
    private let draining = Atomic<Bool>(false)
    private let evictionLog: EvictionLog
    /// The bound addresses; no port: a unix socket.
    let addresses: [(text: String, port: UInt16?)]
    /// When the certificate of each listener ends; nil: it has none.
    private let certificateEnds: Guarded<[WallTime?]>
    /// Users that routes of the start name and that are not configured. The admin API may add them.
    private let unconfiguredUsers: [UserIndex]

    /// What a reload can replace.
    package struct Settings: Sendable {
        package typealias Route = (route: RouteSettings, upstream: UpstreamSettings)

        /// A reload has as many as the start, at the same addresses.
        package var listeners: [ListenerSettings]
        package var routes: [Route]
        /// One for each of `listeners`; nil: it forwards requests. Empty: all do.
        package var granters: [(any TokenGranter)?] = []
        /// One for each of `routes`; nil: its upstream does not speak TLS. Empty: none does.
        package var upstreamTLS: [TLSClientContext?]
        /// Of the files of `set_headers` that nothing has served yet, by path. One that cannot be used is left out.
        package var fieldSecrets: [String: Secret]
        /// Values of `Proxy-Authorization`, by the paths of `credentials_file`. A file that is not there cannot be used.
        package var proxyAuthorizations: [String: Secret] = [:]
        package var limits: LimitSettings
        /// `refresh.wait_max`.
        package var tokenWaitMax: Duration
        package var loginRequiredStatus: Int
        /// `shutdown.drain_max`: how long an exchange that is to end may continue.
        package var drainMax: Duration

        package init(
            listeners: [ListenerSettings], routes: [Route], upstreamTLS: [TLSClientContext?] = [],
            fieldSecrets: [String: Secret] = [:], limits: LimitSettings, tokenWaitMax: Duration,
            loginRequiredStatus: Int,
            drainMax: Duration = .seconds(30)
        ) {
            self.listeners = listeners
            self.routes = routes
            self.upstreamTLS = upstreamTLS
            self.fieldSecrets = fieldSecrets
            self.limits = limits
            self.tokenWaitMax = tokenWaitMax
            self.loginRequiredStatus = loginRequiredStatus
            self.drainMax = drainMax
        }

        func tls(ofRoute index: Int) -> TLSClientContext? { index < upstreamTLS.count ? upstreamTLS[index] : nil }
    }

    /// - Parameters:
    ///   - sockets: bound, one for each listener.
    ///   - capabilities: one for each listener; nil: it asks for none, or its file cannot be used. Empty: no listener asks for one.
    ///   - listenerTLS: one for each listener; nil: its clients speak plain HTTP. Empty: those of all listeners do.
    ///   - accessLines: where the access log goes, one for each shard; nil: none is written.
    ///   - names: of the configured users. Users that routes name are added: their requests are refused with "login
    ///     required" until a token is published for them.
    /// - Throws: the machine's `.system(errno)`: the process or the machine has no descriptor left for a loop.
    package init(
        _ settings: Settings, sockets: [ListeningSocket], capabilities: [Secret?] = [],
        listenerTLS: [TLSServerContext?] = [],
        names: UserNames, shardCount: Int, source: any TokenSource, accessLines: [AccessLines]? = nil, log: Logger
    ) throws(SystemError) {
        let addresses = sockets.map { (text: $0.address.authority, port: $0.port) }
        let configuration = ServedConfiguration(settings, keeping: nil, addresses, resolver)
        unconfiguredUsers =
            PinnedUsers(of: configuration.routeList).bind(in: names) + configuration.bindGranters(in: names)
        for target in configuration.targets { target.setLookupTimeout() }
        let context = ExchangeContext(
            limits: settings.limits, names: names, instance: .random(in: .min ... .max), shardCount: shardCount)
        evictionLog = EvictionLog(log)
        var shards: [Shard] = []
        for index in 0..<shardCount {
            let loop = try EventLoop(label: "lanyard.shard.\(index)")
            shards.append(
                Shard(
                    index: index, loop: loop, context: context, configuration: configuration, source: source,
                    capabilities: capabilities, listenerTLS: listenerTLS, fieldSecrets: settings.fieldSecrets,
                    accessLines: accessLines?[index], evictionLog: evictionLog, log: log))
        }
        acceptors = shards.map { shard in
            sockets.enumerated().map { Acceptor($1, shard: shard, shards: shards, listener: $0, log: log) }
        }
        self.context = context
        self.shards = shards
        self.addresses = addresses
        self.names = names
        served = Guarded(shards.map(\.served))
        certificateEnds = Guarded(listenerTLS.map { $0?.expiresAt })
        self.sockets = Guarded(sockets)
        // A weak reference to a shard would make each of its retains and releases dearer.
        context.buffers.whenOptionalFreed { [weak self] in
            for shard in self?.shards ?? [] { shard.loop.post { shard.releaseSpareMemory() } }
        }
        context.buffers.whenRequestsRefused { [weak self] in
            for shard in self?.shards ?? [] { shard.loop.post { shard.clients.giveUpPartialHeads() } }
        }
        DescriptorShortage.shared.add(self)
    }

    /// Starts the first queues and threads. Requires that all sockets are bound and privileges are dropped.
    ///
    /// - Parameter active: the active user from the first request on.
    package func start(active: UserIndex? = nil) {
        for (shard, shardAcceptors) in zip(shards, acceptors) {
            shard.loop.start()
            shard.loop.post {
                shard.activate(active)
                for acceptor in shardAcceptors {
                    acceptor.applyKeepAlive()
                    acceptor.start()
                }
            }
        }
        for user in unconfiguredUsers { refuseUnknown(user) }
        sockets.withLock { $0 = [] }
    }

    // MARK: TokenSubscriber

    package func publish(_ availability: AccessToken.Availability, for user: UserIndex, heard: HeardRefusals) {
        for shard in shards { shard.loop.post { shard.receive(availability, for: user, heard: heard) } }
    }

    package func publish(_ account: AccountNumber, for user: UserIndex) {
        for shard in shards { shard.loop.post { shard.receive(account, for: user) } }
    }

    /// Routes name a user that is not configured. It has had no token, so no refusal of one was reported.
    func refuseUnknown(_ user: UserIndex) {
        publish(.none(.userUnknown(wasRemoved: false)), for: user, heard: .none)
    }

    package func activate(_ user: UserIndex?) {
        for shard in shards { shard.loop.post { shard.activate(user) } }
    }

    // MARK: Callers

    /// Replaces the capability of a listener.
    ///
    /// - Parameter capability: nil: it cannot be used, and every request of the listener is refused.
    package func setCapability(_ capability: Secret?, ofListener index: Int) {
        for shard in shards { shard.loop.post { shard.clients.setCapability(capability, ofListener: index) } }
    }

    // MARK: Fields of routes

    /// Has requests carry another value of the fields that a file of `set_headers` holds. From any thread.
    ///
    /// - Parameter secret: nil: the file cannot be used, and requests of its routes are refused.
    package func setFieldValue(_ secret: Secret?, ofFile file: String) {
        for shard in shards { shard.loop.post { shard.setFieldValue(secret, ofFile: file) } }
    }

    // MARK: TLS

    /// Has new connections to a listener use this context. From any thread.
    package func setTLS(_ tls: TLSServerContext, ofListener index: Int) {
        noteCertificate(of: tls, ofListener: index)
        for shard in shards { shard.loop.post { shard.clients.setTLS(tls, ofListener: index) } }
    }

    /// For `/metrics` and the admin API.
    func noteCertificate(of tls: TLSServerContext, ofListener index: Int) {
        certificateEnds.withLock { $0[index] = tls.expiresAt }
    }

    /// The bound address of each listener, and when its certificate ends; nil: it has none. From any thread.
    package var listenerCertificates: [(address: String, expiresAt: WallTime?)] {
        certificateEnds.withLock { $0 }.enumerated().map { (addresses[$0].text, $1) }
    }

    /// Connections of clients that are open. From any thread.
    package var clientConnectionCount: Int { shards.reduce(0) { $0 + $1.load.value } }

    /// When the certificate of each listener with TLS ends.
    var certificateSamples: [MetricSample] {
        certificateEnds.withLock { $0 }.enumerated().compactMap { index, end in
            end.map { Self.certificateSample("listener \(addresses[index].text)", $0) }
        }
    }

    // MARK: Drain and abort

    package var isDraining: Bool { draining.load(ordering: .relaxed) }

    /// Accepts the queued connections, closes the listeners, ends kept connections, and calls `finished` when the last
    /// client has disconnected.
    package func drain(finished: @escaping @Sendable () -> Void) {
        draining.store(true, ordering: .relaxed)
        // All listeners stop before the clients are drained: a shard may hand its last clients to another shard, which
        // may hand them on.
        let arrivals = context.arrivals
        arrivals.notifyWhenNone { [shards] in
            let serving = self.countdown(then: finished)
            for shard in shards { shard.loop.post { shard.drain(then: serving) } }
        }
        for (shard, shardAcceptors) in zip(shards, acceptors) {
            shard.loop.post {
                for acceptor in shardAcceptors { acceptor.stop() }
                arrivals.end()
            }
        }
    }

    /// Returns a function that runs `last` when it was called once for each shard.
    private func countdown(then last: @escaping @Sendable () -> Void) -> @Sendable () -> Void {
        let left = Guarded(shards.count)
        return {
            let isLast = left.withLock { left in
                left -= 1
                return left == 0
            }
            if isLast { last() }
        }
    }

    /// Closes all connections and stops the loops.
    ///
    /// Waits up to 1 s, so call it from another thread than a shard's. If the process ended sooner, the kernel would
    /// close responses that were cut off in an orderly way.
    package func abort() {
        let done = DispatchGroup()
        for shard in shards {
            done.enter()
            shard.loop.post {
                shard.abortAll()
                shard.loop.stop()
                done.leave()
            }
        }
        _ = done.wait(timeout: .now() + 1)
    }

    // MARK: Descriptors

    package func releaseDescriptors(then done: @escaping @Sendable (Int) -> Void) {
        let closed = Guarded(0)
        let ended = countdown { [self] in
            let count = closed.withLock { $0 }
            evictionLog.record(closed: count)
            done(count)
        }
        for shard in shards {
            shard.loop.post {
                let count = shard.idleConnections.evictAll()
                closed.withLock { $0 += count }
                ended()
            }
        }
    }
}
