import Dispatch
import LanyardFoundations
import LanyardRequestPath
import LanyardSettings
import Logging
import TestSupport

/// A request path in this process: one listener, one raw upstream behind it, and a token.
final class ProxyBench: Sendable {
    /// What a test may want otherwise.
    struct Plan {
        var route = RouteSettings(name: "all")
        var upstream = UpstreamSettings(endpoint: .tcp(host: "127.0.0.1", port: 1, tls: false), authority: "up.test")
        var limits = LimitSettings()
        var listener = ListenerSettings(address: .tcp(host: "127.0.0.1", port: 0))
        var shards = 1
        var tokenWaitMax = Duration.seconds(2)
        /// Publishes and activates the token at the start.
        var publishes = true
        /// Sends requests to the bench's own upstream.
        var usesUpstream = true
        /// Hands out tokens in place of the route; nil: requests are forwarded.
        var granter: (any TokenGranter)?
        /// TLS on both sides, for a client and an upstream without it.
        var hasTLS = false
        var log = Logger(label: "bench") { _ in SwiftLogNoOpLogHandler() }
        /// For the proxy of the upstream, by the path of its `credentials_file`.
        var proxyAuthorizations: [String: Secret] = [:]
        /// The shards' time passes by `pass` alone.
        var timeStands = false
    }

    static let token = "bench.token-1~a_b+c/d=="
    static let user = UserIndex(0)

    let upstream: RawServer
    let path: RequestPath
    /// What the path served first.
    let settings: RequestPath.Settings
    /// Where clients connect.
    let endpoint: RawEndpoint
    /// Encrypt for the client and for the upstream; nil without TLS.
    let relays: (client: TLSRelay, upstream: TLSRelay)?
    /// Where the path listens, and where it connects to.
    let sides: (listener: RawEndpoint, upstream: RawEndpoint)
    let tokens = TokenCalls()
    /// Users may come later.
    let names = UserNames(["alice", "bob"])

    init(
        at upstreamEndpoint: RawEndpoint = .tcp(0), script: @escaping RawServer.Script = { _ in .response(body: "ok") },
        plan configure: (inout Plan) -> Void = { _ in }
    ) throws {
        upstream = try RawServer(at: upstreamEndpoint, script: script)
        var plan = Plan()
        plan.listener.allowedHosts = ["localhost", "127.0.0.1"]
        configure(&plan)
        let issued = TLSBench.authority.issue("IP:127.0.0.1")
        let upstreamRelay = try plan.hasTLS ? TLSRelay(.server(issued), before: upstream.endpoint) : nil
        if plan.usesUpstream {
            plan.upstream.endpoint =
                switch upstreamRelay?.endpoint ?? upstream.endpoint {
                case .tcp(let port): .tcp(host: "127.0.0.1", port: port, tls: plan.hasTLS)
                case .loopbackV6(let port): .tcp(host: "::1", port: port, tls: false)
                case .loopback(let number, let port): .tcp(host: "127.0.0.\(number)", port: port, tls: false)
                case .unix(let path): .unix(path: path)
                }
        }
        // The context is given beside it.
        if plan.hasTLS { plan.listener.tls = ListenerSettings.TLS(certificateFile: "", keyFile: "") }
        let socket = try ListeningSocket(plan.listener)
        let listener: RawEndpoint =
            switch plan.listener.address {
            case .tcp: .tcp(socket.port ?? 0)
            case .unix(let path): .unix(path)
            case .activated(let name): throw TestFailure("systemd:\(name) is no endpoint")
            }
        sides = (listener, upstreamRelay?.endpoint ?? upstream.endpoint)
        relays = try upstreamRelay.map { (client: try TLSRelay(.client, before: listener), upstream: $0) }
        endpoint = relays?.client.endpoint ?? listener
        var settings = try RequestPath.Settings(
            listeners: [plan.listener], routes: [(plan.route, plan.upstream)],
            upstreamTLS: plan.hasTLS ? [TLSBench.client("127.0.0.1")] : [], limits: plan.limits,
            tokenWaitMax: plan.tokenWaitMax, loginRequiredStatus: 503)
        settings.proxyAuthorizations = plan.proxyAuthorizations
        settings.granters = [plan.granter]
        self.settings = settings
        path = try RequestPath(
            settings, sockets: [socket], listenerTLS: plan.hasTLS ? [TLSBench.server()] : [], names: names,
            shardCount: plan.shards, source: tokens, log: plan.log)
        path.start()
        if plan.timeStands { path.shards.map(\.loop).freezeTime() }
        path.activate(Self.user)
        if plan.publishes { publish(generation: 1) }
    }

    deinit { path.abort() }

    /// Passes time on all shards. What comes due, and what follows from it here, has happened when this returns.
    func pass(_ duration: Duration) { path.shards.map(\.loop).pass(duration) }

    /// The shards' time.
    var now: Instant { path.shards[0].loop.perform { .now } }

    /// Hands every shard a token that lives for a day, unless told otherwise.
    func publish(
        generation: UInt64, token: String = token, account: UInt64 = 0, waitsFrom: Instant = .never,
        usableUntil: Instant = .now + .seconds(86_400), renewal: AccessToken.Renewal = .possible(from: .past)
    ) {
        path.publish(
            Self.availability(
                generation, token, account: account, waitsFrom: waitsFrom, usableUntil: usableUntil, renewal: renewal),
            for: Self.user)
        settle()
    }

    /// A token as the session path publishes it.
    static func availability(
        _ generation: UInt64, _ token: String, account: UInt64 = 0, waitsFrom: Instant = .never,
        usableUntil: Instant = .now + .seconds(86_400), renewal: AccessToken.Renewal = .possible(from: .past)
    ) -> AccessToken.Availability {
        let secret = Array(token.utf8).withUnsafeBytes { Secret(copying: $0) }
        return .token(
            AccessToken(
                user: user, generation: generation, account: AccountNumber(account), token: secret,
                waitsFrom: waitsFrom, usableUntil: usableUntil, renewal: renewal))
    }

    private static let renewals = DispatchQueue(label: "test.renewals")

    /// Each refusal of a token leads to a refresh that takes `time` and brings `token-GENERATION`.
    func renews(after time: Duration = .zero) {
        let (path, tokens) = (self.path, self.tokens)
        tokens.onRefused.withLock {
            $0 = { old in
                let renewed = Self.availability(old, "token-\(old)", renewal: .inProgress)
                path.publish(renewed, for: Self.user, heard: tokens.heard)
                let next = Self.availability(old + 1, "token-\(old + 1)")
                if time == .zero { return path.publish(next, for: Self.user) }
                // Not on a global queue: tests that block its threads would delay the token beyond the longest wait.
                Self.renewals.asyncAfter(deadline: .now() + time.inSeconds) {
                    path.publish(next, for: Self.user)
                }
            }
        }
    }

    /// Serves other settings, as a reload does, from here on.
    func apply(_ settings: RequestPath.Settings, active: UserIndex? = ProxyBench.user) {
        path.serve(path.prepare(settings), active: active)
        path.waitForShards()
    }

    /// Begins the drain, and blocks until every shard has: first the listeners, then the clients.
    func drain() {
        path.drain {}
        settle()
        settle()
    }

    /// Blocks until every shard has done what was posted to it so far.
    func settle() {
        for shard in path.shards {
            let done = DispatchSemaphore(value: 0)
            shard.loop.post { done.signal() }
            done.wait()
        }
    }

    /// Blocks until the one shard has met whatever became readable before: epoll tells in order of readiness, and a refused request of
    /// another client comes behind.
    func fence() throws {
        let client = try RawClient(endpoint)
        defer { client.close() }
        let status = try client.exchange("GET", "/", host: "evil").status
        guard status == 421 else { throw TestFailure("the fence: \(status)") }
    }

    /// Talks over one connection, on a thread of its own.
    func talk<Value: Sendable>(
        receiveBuffer: CInt? = nil, _ work: @escaping @Sendable (RawClient) throws -> Value
    ) async throws -> Value {
        let endpoint = endpoint
        let client = try RawClient(endpoint, receiveBuffer: receiveBuffer)
        defer { client.close() }
        return try work(client)
    }

    /// Blocks until the upstream has read so many requests.
    func awaitRequests(_ count: Int) throws {
        try blockUntil("the upstream has seen \(count) requests") { upstream.requests.count >= count }
    }

    /// One request in, one response out.
    func ask(_ text: String, method: String = "GET") async throws -> RawMessage {
        try await talk { client in
            try client.send(text)
            return try client.response(to: method)
        }
    }

    /// What the upstream's connections received, with our random pseudonym made the same.
    var received: [String] {
        upstream.records.map {
            String(decoding: $0.bytes, as: UTF8.self).replacing(/lanyard-[0-9a-f]{8}/, with: "lanyard-x")
        }
    }

    /// The sum of a counter over all its labels that hold `labels`.
    func count(_ name: String, _ labels: [String: String] = [:]) -> Int {
        let samples = path.samples().filter { sample in
            sample.name == name
                && labels.allSatisfy { label in
                    sample.labels.contains { $0.name == label.key && $0.value == label.value }
                }
        }
        return Int(samples.reduce(0) { $0 + $1.value })
    }
}

/// The session path of a test: it notes who asks.
final class TokenCalls: TokenSource {
    private let box = Guarded<Int>(0)
    /// How often a token was asked for.
    var count: Int { box.withLock { $0 } }
    func tokenNeeded(by user: UserIndex) { box.withLock { $0 += 1 } }

    /// Of which users a refresh was denied, one entry for each response.
    let denied = Guarded<[UserIndex]>([])
    func refreshDenied(by user: UserIndex) { denied.withLock { $0.append(user) } }

    private let refusals = Guarded<[(user: UserIndex, generation: UInt64)]>([])
    private let heardRefusals = Guarded(HeardRefusals.none)
    /// What a publication by now confirms.
    var heard: HeardRefusals { heardRefusals.withLock { $0 } }
    /// Which generations were said to be refused, one entry each time.
    var refused: [UInt64] { refusals.withLock { $0.map(\.generation) } }
    /// Of which users they were.
    var refusedUsers: [UserIndex] { refusals.withLock { $0.map(\.user) } }
    /// What the session path does about it; called on a shard.
    let onRefused = Guarded<@Sendable (UInt64) -> Void>({ _ in })
    func tokenRefused(by user: UserIndex, generation: UInt64, number: RefusalNumber) {
        refusals.withLock { $0.append((user, generation)) }
        heardRefusals.withLock { $0.record(number) }
        onRefused.withLock { $0 }(generation)
    }
}

extension RequestPath {
    /// A publication that confirms no refusal.
    func publish(_ availability: AccessToken.Availability, for user: UserIndex) {
        publish(availability, for: user, heard: .none)
    }
}
