import LanyardFoundations
import LanyardRequestPath
import LanyardSettings
import TestSupport
import Testing
import TornSockets

/// Whole exchanges whose every read and write is torn at every byte, on either side: no result depends on how the network cuts.
@Suite(.timeLimit(minutes: 10), .enabled(if: !Sanitizer.isThread, "the thread sanitizer needs the calls that tear"))
struct ProxyTearTests {
    /// Which calls of the proxy are torn.
    enum Stream: CaseIterable {
        case fromClient, toClient, toUpstream, fromUpstream
    }

    @Test("torn anywhere, an exchange over TCP is the same", arguments: TornExchange.all)
    func tcp(_ exchange: TornExchange) async throws {
        let bench = try ProxyBench(script: exchange.script, plan: exchange.configure)
        try await Self.check(exchange, bench) { _ in Self.fastStep }
    }

    @Test("torn at every fifth place, an exchange over unix sockets is the same", arguments: TornExchange.all)
    func unix(_ exchange: TornExchange) async throws { try await Self.checkUnix(exchange, step: Self.fastStep * 5) }

    @Test(
        "torn in the handshake, in records and between them, an exchange with TLS on both sides is the same",
        arguments: TornExchange.all)
    func tls(_ exchange: TornExchange) async throws {
        try await Self.checkTLS(exchange, places: Sanitizer.isOn ? 2 : 8)
    }

    /// - Parameter places: how many of each stream are tried.
    static func checkTLS(_ exchange: TornExchange, places: Int) async throws {
        let bench = try ProxyBench(script: exchange.script) { plan in
            exchange.configure(&plan)
            plan.hasTLS = true
        }
        try await check(exchange, bench) { length in max(length / places, 1) }
    }

    /// - Parameter step: from one place of a cut to the next.
    static func checkUnix(_ exchange: TornExchange, step: Int) async throws {
        let folder = try TemporaryFolder()
        let bench = try ProxyBench(at: .unix(folder.file("up")), script: exchange.script) { plan in
            exchange.configure(&plan)
            plan.listener.address = .unix(path: folder.file("in"))
        }
        try await check(exchange, bench) { _ in step }
    }

    /// - Parameter step: from one place of a cut to the next, in a stream of this length.
    private static func check(
        _ exchange: TornExchange, _ bench: ProxyBench, step: @escaping @Sendable (_ length: Int) -> Int
    ) async throws {
        bench.renews()
        let before = lanyard_tears()
        // The ports may be other tests' next.
        defer { for stream in [Stream.fromClient, .toUpstream] { tear(stream, bench, none) } }
        let differences = try await offPool { () throws -> [String] in
            let whole = try run(exchange, bench)
            var differences: [String] = []
            func compare(_ what: String) throws {
                let torn = try Self.run(exchange, bench)
                if torn.text != whole.text { differences.append("\(what):\n\(torn.text)\nwhole:\n\(whole.text)") }
            }
            for stream in Stream.allCases {
                Self.tear(stream, bench, lanyard_tear(most: 1, cut: -1))
                try compare("\(stream) byte by byte")
                let length = max(whole.length(stream), 2)
                for cut in stride(from: 1, to: length, by: step(length)) {
                    Self.tear(stream, bench, lanyard_tear(most: 0, cut: Int64(cut)))
                    try compare("\(stream) at \(cut)")
                    if differences.count > 3 { return differences }
                }
                Self.tear(stream, bench, Self.none)
            }
            for stream in [Stream.fromClient, .toUpstream] {
                Self.tear(stream, bench, lanyard_tear(most: 1, cut: -1), both: true)
            }
            try compare("everything byte by byte")
            return differences
        }
        #expect(differences == [])
        #expect(lanyard_tears() - before > (step(1000) == 1 ? 100 : 10))
    }

    /// A sanitized build is many times slower: every place in turn would take half an hour.
    private static let fastStep = Sanitizer.isOn ? 13 : 1
    private static let none = lanyard_tear(most: 0, cut: -1)

    private static func tear(_ stream: Stream, _ bench: ProxyBench, _ tear: lanyard_tear, both: Bool = false) {
        let isClient = stream == .fromClient || stream == .toClient
        let reads = both || stream == .fromClient || stream == .fromUpstream ? tear : none
        let writes = both || stream == .toClient || stream == .toUpstream ? tear : none
        switch isClient ? bench.sides.listener : bench.sides.upstream {
        case .tcp(let port), .loopback(_, let port): lanyard_tear_port(port, isClient ? 1 : 0, reads, writes)
        case .unix(let path): lanyard_tear_path(path, isClient ? 1 : 0, reads, writes)
        }
    }

    /// One run of an exchange, as both sides saw it.
    private struct Sight {
        var text = ""
        private var lengths: [Stream: Int] = [:]

        init(_ exchange: TornExchange, client: [RawMessage], rest: [UInt8], upstream: [RawServer.Record]) {
            // How bytes are put into chunks is not compared.
            for message in client + upstream.flatMap(\.requests) {
                text += VaryingText.normalized("\(message.headText)[\(message.bodyText)]\(message.trailerText)\n")
            }
            text += String(decoding: rest, as: UTF8.self)
            lengths[.fromClient] = exchange.requests.reduce(0) { $0 + $1.utf8.count }
            lengths[.toClient] = client.reduce(rest.count) { $0 + $1.head.count + $1.framedBody.count }
            lengths[.toUpstream] = upstream.map(\.bytes.count).max()
            // Its heads are longer than what is made of them by no more than what the client's are.
            lengths[.fromUpstream] = lengths[.toClient]
        }

        /// The lengths as they are on the wire, handshake included.
        mutating func measure(_ relays: (client: TLSRelay, upstream: TLSRelay)) {
            lengths[.fromClient] = relays.client.longest.sent
            lengths[.toClient] = relays.client.longest.received
            lengths[.toUpstream] = relays.upstream.longest.received
            lengths[.fromUpstream] = relays.upstream.longest.sent
        }

        func length(_ stream: Stream) -> Int { lengths[stream] ?? 0 }
    }

    private static func run(_ exchange: TornExchange, _ bench: ProxyBench) throws -> Sight {
        // Connections are torn as was planned when they began.
        for shard in bench.path.shards { shard.loop.post { for pool in shard.served.pools { pool.closeIdle() } } }
        bench.settle()
        let before = bench.upstream.records.count
        let client = try RawClient(bench.endpoint)
        defer { client.close() }
        try client.send(exchange.requests.joined())
        var messages: [RawMessage] = []
        var rest: [UInt8] = []
        var methods = exchange.requests.map { $0.drop { $0 == "\r\n" }.prefix { $0 != " " } }[...]
        while let message = try client.reader.readResponseIfAny(to: String(methods.first ?? "GET")) {
            messages.append(message)
            if message.status >= 200 { methods = methods.dropFirst() }
            if message.status == 101 { rest = try client.readToEnd() }
        }
        var sight = Sight(
            exchange, client: messages, rest: rest, upstream: Array(bench.upstream.records.dropFirst(before)))
        if let relays = bench.relays { sight.measure(relays) }
        return sight
    }
}

/// The same over unix sockets at every place.
@Suite(.timeLimit(minutes: 10), .serialized) struct LongUnixTearTests {
    @Test("torn anywhere, an exchange over unix sockets is the same", arguments: TornExchange.all)
    func unix(_ exchange: TornExchange) async throws { try await ProxyTearTests.checkUnix(exchange, step: 1) }
}

/// The same with TLS on both sides at many places.
@Suite(.timeLimit(minutes: 10), .serialized) struct LongTLSTearTests {
    @Test(
        "torn at a hundred places of each stream, an exchange with TLS on both sides is the same",
        arguments: TornExchange.all)
    func tls(_ exchange: TornExchange) async throws { try await ProxyTearTests.checkTLS(exchange, places: 100) }
}
