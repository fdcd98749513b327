import CLinux
import Glibc
import LanyardFoundations
import Synchronization

/// Resolves names by `getaddrinfo` on threads of its own, never on a shard, with one lookup per name at a time.
///
/// The call cannot be cancelled, so the caller bounds its own waiting (`upstream_dns.timeout`). Each waiting name has a
/// thread of its own, up to 8: a name server that does not respond for some names delays no others.
package final class Resolver: Sendable {
    package typealias Reply = @Sendable (Result<[SocketAddress], UpstreamError>) -> Void
    typealias Lookup = @Sendable (String) -> Result<[SocketAddress], UpstreamError>
    typealias Calls = BlockingCalls<Reply, Result<[SocketAddress], UpstreamError>>

    private static let threadsMax = 8
    /// They stay, so that names can be resolved while no further thread can be had.
    private static let threadsAtRest = 2

    /// How a lookup has ended: the values of `result` in `lanyard_dns_lookups_total`.
    private enum Outcome: String, CaseIterable {
        case success, failure
        /// No name server has responded in time.
        case timeout

        init(_ result: Result<[SocketAddress], UpstreamError>) {
            switch result {
            case .success: self = .success
            case .failure(.nameTimedOut): self = .timeout
            case .failure: self = .failure
            }
        }
    }

    /// How many lookups have ended, and how.
    private final class Counts: Sendable {
        let values = Guarded<[Outcome: Int]>([:])
    }

    /// Seconds that each name server has.
    private final class ServerTime: Sendable {
        let seconds = Atomic<Int>(2)
    }

    private let counts = Counts()
    private let serverTime: ServerTime
    private let calls: Calls

    package convenience init() {
        let serverTime = ServerTime()
        self.init(
            lookUp: { Self.lookUpBlocking($0, serverSeconds: serverTime.seconds.load(ordering: .relaxed)) },
            serverTime: serverTime)
    }

    private init(
        lookUp: @escaping Lookup, serverTime: ServerTime, start: @escaping Calls.Start = { DetachedThread.start($0) }
    ) {
        self.serverTime = serverTime
        calls = Calls(
            threadsMax: Self.threadsMax, threadsAtRest: Self.threadsAtRest,
            kind: Calls.Kind(
                prepareThread: { lanyard_limit_resolver() },
                perform: { host, _ in lookUp(host) },
                outcomeWithoutThread: { .failure(.local($0)) },
                reply: { [counts] result, replies in
                    counts.values.withLock { $0[Outcome(result), default: 0] += 1 }
                    for reply in replies { reply(result) }
                }), start: start)
    }

    /// - Parameter lookUp: blocks until the addresses of a name are known.
    convenience init(lookUp: @escaping Lookup, start: @escaping Calls.Start = { DetachedThread.start($0) }) {
        self.init(lookUp: lookUp, serverTime: ServerTime(), start: start)
    }

    /// Sets how long a caller waits for a lookup from now on. A name server has two fifths of it.
    package func setTimeout(_ timeout: Duration) {
        serverTime.seconds.store(max(1, Int(timeout / .seconds(1) * 2 / 5)), ordering: .relaxed)
    }

    /// The time that a name server has for a lookup, in seconds.
    var serverSeconds: Int { serverTime.seconds.load(ordering: .relaxed) }

    /// Looks `host` up. `reply` is called on a thread of the resolver, possibly late: bound the waiting.
    /// If no thread can be started at all, it is called before this returns.
    package func resolve(_ host: String, reply: @escaping Reply) {
        // It never stops, so no call is refused.
        _ = calls.call(host, for: reply)
    }

    /// The lookups that have ended. A lookup that several callers wait for counts once. From any thread.
    package var samples: [MetricSample] {
        let counts = counts.values.withLock { $0 }
        return Outcome.allCases.map { outcome in
            MetricSample(
                "lanyard_dns_lookups", suffix: "_total", labels: [.init("result", outcome.rawValue)],
                value: Double(counts[outcome, default: 0]))
        }
    }

    /// Blocks for as long as the name servers take.
    ///
    /// Addresses of families that the machine's networks do not have are left out. Loopback addresses do not count as a
    /// network (getaddrinfo(3)): a name without any other address is looked up again with all of its addresses.
    ///
    /// A name with a dot at its end is looked up as it is. The hosts file has names without that dot, so the search list
    /// is left out in another way.
    private static func lookUpBlocking(
        _ name: String, serverSeconds: Int
    ) -> Result<[SocketAddress], UpstreamError> {
        let isFullyQualified = name.hasSuffix(".")
        lanyard_prepare_lookup(!isFullyQualified, CInt(serverSeconds))
        let host = isFullyQualified ? String(name.dropLast()) : name
        let reachable = lookUpBlocking(host, AI_ADDRCONFIG)
        switch reachable {
        case .success(let addresses) where !addresses.allSatisfy(\.isLoopback): return reachable
        case .success, .failure(.nameNotFound): break
        case .failure: return reachable
        }
        guard case .success(let all) = lookUpBlocking(host, 0), all.contains(where: \.isLoopback) else {
            return reachable
        }
        return .success(all)
    }

    private static func lookUpBlocking(_ host: String, _ flags: CInt) -> Result<[SocketAddress], UpstreamError> {
        var hints = addrinfo()
        hints.ai_socktype = CInt(SOCK_STREAM.rawValue)
        hints.ai_flags = flags
        var list: UnsafeMutablePointer<addrinfo>?
        var code = getaddrinfo(host, nil, &hints, &list)
        if code != 0, DescriptorShortage.shared.isExhausted {
            // getaddrinfo reports a shortage of descriptors as a name that is not found.
            DescriptorShortage.shared.releaseAndWait()
            code = getaddrinfo(host, nil, &hints, &list)
        }
        defer { if let list { freeaddrinfo(list) } }
        guard code == 0 else { return .failure(code == EAI_AGAIN ? .nameTimedOut : .nameNotFound) }
        var addresses: [SocketAddress] = []
        var entry = list
        while let found = entry {
            let size = found.pointee.ai_addrlen
            let address = SocketAddress { room, length in
                memcpy(room, found.pointee.ai_addr, Int(size))
                length.pointee = size
                return true
            }
            if let address, !addresses.contains(address) { addresses.append(address) }
            entry = found.pointee.ai_next
        }
        return addresses.isEmpty ? .failure(.nameNotFound) : .success(addresses)
    }
}
