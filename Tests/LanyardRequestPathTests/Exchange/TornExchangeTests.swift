import CLinux
import Glibc
import LanyardFoundations
import LanyardRequestPath
import LanyardSettings
import TestSupport
import Testing
import TornSockets

/// Whole exchanges whose reads and writes are torn, on either side: no result depends on how the network cuts.
///
/// Here each exchange over TCP and a third of them over each other transport, byte by byte and at one or two places of each stream;
/// `LongTornExchangeTests` cuts everything everywhere.
@Suite(.enabled(if: !Sanitizer.isThread, "the thread sanitizer needs the calls that tear"))
struct TornExchangeTests {
    enum Transport: CaseIterable, Sendable {
        case tcp, unix
        /// On both sides: cuts are in the handshake, in records and between them.
        case tls
    }

    /// Which calls of the proxy are torn.
    private enum Stream: CaseIterable {
        case fromClient, toClient, toUpstream, fromUpstream
    }

    private static let cases: [(TornExchange, Transport)] = TornExchange.all.enumerated().flatMap { index, exchange in
        [(exchange, .tcp)] + (index % 3 == 0 ? [(exchange, .unix)] : index % 3 == 1 ? [(exchange, .tls)] : [])
    }

    @Test("torn byte by byte, and at some places of each stream, an exchange is the same", arguments: cases)
    func torn(_ exchange: TornExchange, _ transport: Transport) async throws {
        try await Self.check(exchange, transport, placesMax: transport == .tcp ? 2 : 1)
    }

    /// - Parameter placesMax: how many places of each stream are cut at; nil: all.
    static func check(_ exchange: TornExchange, _ transport: Transport, placesMax: Int?) async throws {
        let folder = try TemporaryFolder()
        let bench = try ProxyBench(
            at: transport == .unix ? .unix(folder.file("up")) : .tcp(0), script: exchange.script
        ) { plan in
            exchange.configure(&plan)
            if transport == .unix { plan.listener.address = .unix(path: folder.file("in")) }
            plan.hasTLS = transport == .tls
        }
        bench.renews()
        let before = lanyard_tears()
        // The ports may be other tests' next.
        defer { for stream in [Stream.fromClient, .toUpstream] { tear(stream, bench, none) } }
        let differences = try { () throws -> [String] in
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
                let step = placesMax.map { (length + $0 - 1) / $0 } ?? 1
                for cut in stride(from: 1, to: length, by: step) {
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
        }()
        #expect(differences == [])
        #expect(lanyard_tears() - before > 10)
    }

    private static let none = lanyard_tear(most: 0, cut: -1)

    private static func tear(_ stream: Stream, _ bench: ProxyBench, _ tear: lanyard_tear, both: Bool = false) {
        let isClient = stream == .fromClient || stream == .toClient
        let reads = both || stream == .fromClient || stream == .fromUpstream ? tear : none
        let writes = both || stream == .toClient || stream == .toUpstream ? tear : none
        switch isClient ? bench.sides.listener : bench.sides.upstream {
        case .tcp(let port), .loopback(_, let port), .loopbackV6(let port):
            lanyard_tear_port(port, isClient ? 1 : 0, reads, writes)
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

    // MARK: - The means that tears, since every other test of this program shares its calls

    /// Numbers from here on are rarely another test's.
    private static let numbers: CInt = 800

    @Test("a closed descriptor is torn no more, whatever gets its number next")
    func closed() throws {
        let server = try RawServer { _ in .response() }
        guard case .tcp(let port) = server.endpoint else { throw TestFailure("not over TCP: \(server.endpoint)") }
        let single = lanyard_tear(most: 1, cut: -1), whole = lanyard_tear(most: 0, cut: -1)
        lanyard_tear_port(port, 0, single, single)
        defer { lanyard_tear_port(port, 0, whole, whole) }
        let epoll = epoll_create1(0)
        defer { close(epoll) }
        for _ in 0..<20 {
            let torn = try Self.connect(port)
            var event = epoll_event()
            #expect(epoll_ctl(epoll, EPOLL_CTL_ADD, torn, &event) == 0)
            #expect(Self.send(torn) == 1)
            close(torn)
            let next = try Self.connect(port)
            defer { close(next) }
            guard next == torn else { continue }
            #expect(Self.send(next) == 10)
            return
        }
        Issue.record("the number never came again")
    }

    /// A connection whose number is the least free one from `numbers` on.
    private static func connect(_ port: UInt16) throws -> CInt {
        let raw = socket(AF_INET, CInt(SOCK_STREAM.rawValue), 0)
        defer { close(raw) }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
        let status = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                Glibc.connect(raw, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        let number = fcntl(raw, F_DUPFD, numbers)
        guard status == 0, number >= 0 else { throw TestFailure("connect: errno \(errno)") }
        return number
    }

    private static func send(_ raw: CInt) -> Int {
        Glibc.send(raw, Array("GET / HTTP".utf8), 10, CInt(MSG_NOSIGNAL))
    }
}

@Suite(.serialized) struct LongTornExchangeTests {
    @Test(
        "torn anywhere, an exchange over TCP or unix sockets is the same; with TLS at a hundred places of each stream",
        arguments: TornExchange.all, TornExchangeTests.Transport.allCases)
    func torn(_ exchange: TornExchange, _ transport: TornExchangeTests.Transport) async throws {
        try await TornExchangeTests.check(exchange, transport, placesMax: transport == .tls ? 100 : nil)
    }
}
