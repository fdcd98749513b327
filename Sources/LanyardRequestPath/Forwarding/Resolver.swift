import CLinux
import Dispatch
import Glibc
import LanyardFoundations

/// Resolves names by `getaddrinfo` on threads of its own, never on a shard, with one lookup per name at a time.
///
/// The call cannot be cancelled, so the caller bounds its own waiting. Each waiting name has a thread of its own, up to
/// 8: a name server that is silent for some names delays no others. Two threads stay when there is nothing to do.
package final class Resolver: Sendable {
    package typealias Reply = @Sendable (Result<[SocketAddress], UpstreamError>) -> Void
    typealias Lookup = @Sendable (String) -> Result<[SocketAddress], UpstreamError>
    /// Starts a thread that runs the resolver. Returns 0 or the error number.
    typealias Start = @Sendable (Resolver) -> CInt

    /// How long a caller waits for a lookup.
    package static let waitMax = Duration.seconds(5)
    private static let threadsAtRest = 2
    private static let threadsMax = 8

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

    private struct State {
        var counts: [Outcome: Int] = [:]
        /// The callers that wait for each name.
        var waiting: [String: [Reply]] = [:]
        /// Names that no thread looks up yet.
        var order: [String] = []
        var threads = 0
        /// Threads that wait, including those that are being woken: each name in `order` stands for one.
        var idle = 0
    }

    private enum Work { case lookUp(String), wait, end }

    private let state = Guarded(State())
    private let work = DispatchSemaphore(value: 0)
    private let lookUp: Lookup
    private let start: Start

    package convenience init() { self.init { Self.lookUpBlocking($0) } }

    /// - Parameter lookUp: blocks until the addresses of a name are known.
    init(lookUp: @escaping Lookup, start: @escaping Start = { resolver in DetachedThread.start { resolver.run() } }) {
        self.lookUp = lookUp
        self.start = start
    }

    /// Looks `host` up. `reply` is called on a thread of the resolver, possibly late: bound the waiting by `waitMax`.
    /// If no thread can be started at all, it is called before this returns.
    package func resolve(_ host: String, reply: @escaping Reply) {
        let spawn = state.withLock { state in
            let isNew = state.waiting[host] == nil
            state.waiting[host, default: []].append(reply)
            guard isNew else { return false }
            state.order.append(host)
            guard state.order.count > state.idle, state.threads < Self.threadsMax else { return false }
            state.threads += 1
            return true
        }
        guard spawn else {
            work.signal()
            return
        }
        let code = start(self)
        if code != 0 { threadUnavailable(code) }
    }

    /// No thread could be started for a name: the next free one takes it. If there is no thread at all, all lookups
    /// fail.
    private func threadUnavailable(_ code: CInt) {
        let replies = state.withLock { state -> [Reply] in
            state.threads -= 1
            guard state.threads == 0 else { return [] }
            let names = state.order
            state.counts[.failure, default: 0] += names.count
            state.order = []
            return names.flatMap { state.waiting.removeValue(forKey: $0) ?? [] }
        }
        for reply in replies { reply(.failure(.local(code))) }
    }

    /// Runs one thread.
    func run() {
        lanyard_limit_resolver()
        while true {
            switch nextWork() {
            case .lookUp(let host): complete(host)
            case .wait:
                work.wait()
                state.withLock { $0.idle -= 1 }
            case .end: return
            }
        }
    }

    private func nextWork() -> Work {
        state.withLock { state in
            if !state.order.isEmpty { return .lookUp(state.order.removeFirst()) }
            guard state.idle < Self.threadsAtRest else {
                state.threads -= 1
                return .end
            }
            state.idle += 1
            return .wait
        }
    }

    private func complete(_ host: String) {
        let result = lookUp(host)
        let replies = state.withLock { state in
            state.counts[Outcome(result), default: 0] += 1
            return state.waiting.removeValue(forKey: host) ?? []
        }
        for reply in replies { reply(result) }
    }

    /// The lookups that have ended. A lookup that several callers wait for counts once. From any thread.
    package var samples: [MetricSample] {
        let counts = state.withLock { $0.counts }
        return Outcome.allCases.map { outcome in
            MetricSample(
                "lanyard_dns_lookups", suffix: "_total", labels: [.init("result", outcome.rawValue)],
                value: Double(counts[outcome, default: 0]))
        }
    }

    /// Blocks for as long as the name servers take.
    private static func lookUpBlocking(_ host: String) -> Result<[SocketAddress], UpstreamError> {
        var hints = addrinfo()
        hints.ai_socktype = CInt(SOCK_STREAM.rawValue)
        hints.ai_flags = AI_ADDRCONFIG
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
