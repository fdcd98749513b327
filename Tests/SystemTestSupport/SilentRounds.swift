import CLinux
import Foundation
import Glibc
import LanyardFoundations
import TestSupport

/// Pairs of clients that compete for one connection slot, in rounds with silence between them.
///
/// Each pair has a route of its own with `connections_max: 1` and an upstream that closes after each response. Both clients of a pair send
/// at once, and the next round begins when both have their responses. A request that misses its wake-up is therefore woken by nothing else.
/// The clients of a pair are on different shards, because a wake-up within one shard is the simpler case.
/// Plain system calls on threads of their own: the rounds must be many.
final class SilentRounds: Sendable {
    struct Outcome: Sendable {
        var rounds = 0
        /// The longest time from a request to its response.
        var slowest = Duration.zero
        /// What went wrong, at most the first failure of each pair.
        var failures: [String] = []
    }

    /// A request waits so long at the limit before it gets 503.
    static let connectTimeout = Duration.seconds(20)
    /// A request that waits longer was not woken. The machine may be busy; a lost wake-up costs all of `connectTimeout`.
    static let slowestMax = Duration.seconds(5)

    private let lanyard: LanyardProcess
    private let folder: TemporaryFolder
    private let upstreams: [RawSocket]
    /// The upstream of `/shard`. Its responses are the numbers of their connections.
    private let numbering: RawServer

    /// - Parameters:
    ///   - pairs: run at the same time, each against a route of its own.
    ///   - binary: another build of the program.
    static func start(pairs: Int, shards: Int, isUnix: Bool, binary: String? = nil) async throws -> SilentRounds {
        let folder = try TemporaryFolder()
        let upstreams = try (0..<pairs).map {
            try RawSocket.listen(at: isUnix ? .unix(folder.file("up\($0)")) : .tcp(0))
        }
        let routes = upstreams.enumerated().map { number, upstream in
            let place = isUnix ? "unix:\(folder.file("up\(number)"))" : "http://127.0.0.1:\(upstream.localPort)"
            return """
                {name: r\(number), match: {path: /\(number)}, upstream: "\(place)", connections_max: 1,
                  timeouts: {connect: \(connectTimeout.components.seconds)s}}
                """
        }
        let numbering = try RawServer { .response(body: "\($0.connection)") }
        let shardRoute = "{name: shard, match: {path: /shard}, upstream: \"http://\(numbering.endpoint)\"}"
        for upstream in upstreams { Thread.detachNewThread { upstream.use(serve) } }
        let list = (routes + [shardRoute]).joined(separator: ",\n  ")
        let lanyard = try await LanyardProcess.start(
            "routes: [\(list)]\nshards: \(shards)\n", token: "round-token",
            listener: "address: \"\(isUnix ? "unix:\(folder.file("in"))" : "127.0.0.1:0")\"", binary: binary)
        try await lanyard.untilReady()
        return SilentRounds(lanyard, folder, upstreams, numbering)
    }

    private init(
        _ lanyard: LanyardProcess, _ folder: TemporaryFolder, _ upstreams: [RawSocket], _ numbering: RawServer
    ) {
        self.numbering = numbering
        self.lanyard = lanyard
        self.folder = folder
        self.upstreams = upstreams
    }

    deinit { for upstream in upstreams { upstream.close() } }

    /// Runs all pairs to their end: `rounds` in all, or fewer when one of a pair failed.
    func run(rounds: Int) async throws -> Outcome {
        let share = (rounds + upstreams.count - 1) / upstreams.count
        let host = if case .unix = lanyard.data { "localhost" } else { "\(lanyard.data)" }
        let pairs = try connectPairs(at: host)
        return try await withThrowingTaskGroup(of: Outcome.self) { group in
            for (number, clients) in pairs.enumerated() {
                group.addTask {
                    Self.compete(clients, for: "/\(number)", at: host, rounds: share)
                }
            }
            return try await group.reduce(into: Outcome()) { all, one in
                all.rounds += one.rounds
                all.slowest = max(all.slowest, one.slowest)
                all.failures += one.failures
            }
        }
    }

    /// Connects all clients and makes pairs of those on different shards.
    private func connectPairs(at host: String) throws -> [[RawSocket]] {
        let clients = try (0..<(2 * upstreams.count)).map { _ in try RawSocket.connect(to: lanyard.data) }
        // A shard keeps the connection of its last request and uses it again, so its number stands for the shard.
        let shards = try clients.map { client in
            try client.send(Array("GET /shard HTTP/1.1\r\nHost: \(host)\r\n\r\n".utf8))
            return try RawReader(client).readResponse(to: "GET").bodyText
        }
        // No shard has more than half of the clients, so two that are half the number apart are on different shards.
        let order = clients.indices.sorted { (shards[$0], $0) < (shards[$1], $1) }
        return try upstreams.indices.map { number in
            let pair = [order[number], order[number + upstreams.count]]
            guard shards[pair[0]] != shards[pair[1]] else {
                throw TestFailure("both clients of a pair are on one shard: \(shards)")
            }
            return pair.map { clients[$0] }
        }
    }

    /// Requests that wait, by the metric.
    func parked() async throws -> Int {
        let page = try await RawClient.ask(lanyard.health, "GET", "/metrics").bodyText
        return page.firstMatch(of: /(?m)^lanyard_parked_requests (\d+)/).flatMap { Int($0.1) } ?? -1
    }

    private static func compete(
        _ clients: [RawSocket], for path: String, at host: String, rounds: Int
    ) -> Outcome {
        var outcome = Outcome()
        let request = Array("GET \(path) HTTP/1.1\r\nHost: \(host)\r\n\r\n".utf8)
        clients[0].use { first in
            clients[1].use { second in
                let pair = [first, second]
                for descriptor in pair { setBlocking(descriptor) }
                var buffer = [UInt8](repeating: 0, count: 4096)
                while outcome.rounds < rounds {
                    let start = ContinuousClock.now
                    for descriptor in pair { send(descriptor, request, request.count, CInt(MSG_NOSIGNAL)) }
                    for descriptor in pair {
                        guard let failure = readResponse(descriptor, into: &buffer) else { continue }
                        let time = start.duration(to: .now)
                        outcome.failures = ["\(path), round \(outcome.rounds), after \(time): \(failure)"]
                    }
                    outcome.slowest = max(outcome.slowest, start.duration(to: .now))
                    guard outcome.failures.isEmpty else { break }
                    outcome.rounds += 1
                }
            }
        }
        return outcome
    }

    /// nil after a whole 200 with the body `ok`, else what came instead.
    private static func readResponse(_ descriptor: CInt, into buffer: inout [UInt8]) -> String? {
        var count = 0
        var patience: Patience?
        while true {
            let got = buffer.withUnsafeMutableBytes { recv(descriptor, $0.baseAddress! + count, $0.count - count, 0) }
            if got < 0, errno == EAGAIN {
                // A second has passed. A round with its responses at once needs no patience.
                if let patience {
                    if patience.isExhausted { return patience.failure("the response comes").description }
                } else {
                    patience = Patience()
                }
                continue
            }
            guard got > 0 else { return "no response, errno \(got == 0 ? 0 : errno)" }
            count += got
            // "HTTP/1.1 200" and an end of "\r\nok".
            if count > 12, buffer[9] != 0x32 { return String(decoding: buffer[..<count], as: UTF8.self) }
            if count > 16, buffer[count - 4] == 0x0d, buffer[count - 2] == 0x6f, buffer[count - 1] == 0x6b {
                return nil
            }
            if count == buffer.count { return "a response without an end" }
        }
    }

    /// Answers one request of each connection and closes it, until the listener is closed.
    private static func serve(_ listener: CInt) {
        _ = fcntl(listener, F_SETFL, fcntl(listener, F_GETFL) & ~O_NONBLOCK)
        let response = Array("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok".utf8)
        var buffer = [UInt8](repeating: 0, count: 4096)
        while true {
            let descriptor = accept(listener, nil, nil)
            guard descriptor >= 0 else {
                if errno == EINTR || errno == ECONNABORTED { continue }
                return
            }
            // The head of a request without a body fits one segment.
            if recv(descriptor, &buffer, buffer.count, 0) > 0 {
                send(descriptor, response, response.count, CInt(MSG_NOSIGNAL))
            }
            close(descriptor)
        }
    }

    private static func setBlocking(_ descriptor: CInt) {
        _ = fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) & ~O_NONBLOCK)
        var timeout = timeval(tv_sec: 1, tv_usec: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &timeout, socklen_t(MemoryLayout<timeval>.size))
    }
}
