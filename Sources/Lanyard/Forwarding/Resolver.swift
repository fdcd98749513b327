import CLanyard.Linux
import Dispatch
import Glibc

/// Resolves names by `getaddrinfo` on threads of its own: never on a shard, one lookup per name at a time.
///
/// The call cannot be ended. Who asks bounds its own waiting; a thread that has not come back after 5 s counts as lost, and
/// another takes its place, eight alive at most.
package final class Resolver: Sendable {
    package typealias Reply = @Sendable (Result<[SocketAddress], UpstreamFailure>) -> Void

    /// A lookup is answered by then or counts as lost.
    package static let patience = Duration.seconds(5)
    private static let threadsAtRest = 2
    private static let threadsMax = 8

    private struct State {
        var waiting: [String: [Reply]] = [:]
        var order: [String] = []
        /// Names under way, and since when.
        var running: [String: Instant] = [:]
        var threads = 0
        var idle = 0
    }

    private let state = Guarded(State())
    private let work = DispatchSemaphore(value: 0)

    package init() {}

    /// Looks `host` up; `reply` comes on a thread of the resolver, perhaps never: bound your waiting by `patience`.
    package func resolve(_ host: String, reply: @escaping Reply) {
        let spawn = state.withLock { state in
            if state.waiting[host, default: []].isEmpty, state.running[host] == nil { state.order.append(host) }
            state.waiting[host, default: []].append(reply)
            let now = Instant.now
            let lost = state.running.values.count { $0 + Self.patience < now }
            let wanted = state.idle == 0 && state.threads - lost < Self.threadsAtRest && state.threads < Self.threadsMax
            if wanted { state.threads += 1 }
            return wanted
        }
        if spawn { startThread() }
        work.signal()
    }

    private func startThread() {
        var thread = pthread_t()
        let context = Unmanaged.passRetained(self)
        let failed = pthread_create(
            &thread, nil,
            { raw in
                Unmanaged<Resolver>.fromOpaque(raw!).takeRetainedValue().run()
                return nil
            }, context.toOpaque())
        if failed == 0 {
            pthread_detach(thread)
        } else {
            context.release()
            state.withLock { $0.threads -= 1 }
        }
    }

    private func run() {
        lanyard_limit_resolver()
        while true {
            state.withLock { $0.idle += 1 }
            work.wait()
            let host = state.withLock { state -> String? in
                state.idle -= 1
                guard let first = state.order.first else { return nil }
                state.order.removeFirst()
                state.running[first] = .now
                return first
            }
            guard let host else { continue }
            let answer = Self.lookUp(host)
            let replies = state.withLock { state in
                state.running[host] = nil
                return state.waiting.removeValue(forKey: host) ?? []
            }
            for reply in replies { reply(answer) }
        }
    }

    /// Blocks for as long as the name servers take.
    private static func lookUp(_ host: String) -> Result<[SocketAddress], UpstreamFailure> {
        var hints = addrinfo()
        hints.ai_socktype = CInt(SOCK_STREAM.rawValue)
        hints.ai_flags = AI_ADDRCONFIG
        var list: UnsafeMutablePointer<addrinfo>?
        let code = getaddrinfo(host, nil, &hints, &list)
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
