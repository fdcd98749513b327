import Glibc
import LanyardRequestPath
import TestSupport
import Testing

/// Whole upgrade exchanges torn at every byte, over TCP and unix sockets: no result depends on how the network cuts.
@Suite(.timeLimit(minutes: 3)) struct ProxyTunnelCutTests {
    /// What one side says in all.
    struct Exchange: Sendable, CustomTestStringConvertible {
        let name: String
        let client: String
        let upstream: String
        /// What the client gets.
        let response: String
        /// What the upstream gets behind the first head.
        let behind: String
        /// What the upstream says when it has got all that.
        var last = ""
        var testDescription: String { name }
    }

    private static let second = "GET /2 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    private static let secondSent =
        "GET /2 HTTP/1.1\r\nHost: up.test\r\nVia: 1.1 lanyard-x\r\nAuthorization: Bearer \(ProxyBench.token)\r\n\r\n"

    static let exchanges = [
        Exchange(
            name: "granted, with bytes on both sides", client: TunnelBench.asking + "early\r\n\r\nGET / x",
            upstream: TunnelBench.granting + "late\0HTTP/1.1 200 OK\r\n\r\n",
            response: TunnelBench.granted + "late\0HTTP/1.1 200 OK\r\n\r\n", behind: "early\r\n\r\nGET / x"),
        Exchange(
            name: "granted behind an early hint",
            client: "\r\n" + TunnelBench.asking,
            upstream: "HTTP/1.1 103 Hint\r\nLink: l\r\n\r\n" + TunnelBench.granting,
            response: "HTTP/1.1 103 Hint\r\nLink: l\r\n\r\n" + TunnelBench.granted, behind: ""),
        Exchange(
            name: "refused", client: TunnelBench.asking + second,
            upstream: "HTTP/1.1 403 No\r\nContent-Length: 2\r\nDate: d\r\n\r\nno",
            response:
                "HTTP/1.1 403 No\r\nDate: d\r\nContent-Length: 2\r\n\r\nnoHTTP/1.1 204 Bye\r\nDate: d\r\nConnection: close\r\n\r\n",
            behind: secondSent, last: "HTTP/1.1 204 Bye\r\nDate: d\r\nConnection: close\r\n\r\n"),
    ]

    @Test("an upgrade gives the same result, however either side's bytes are cut", arguments: exchanges, [false, true])
    func torn(_ exchange: Exchange, _ isUnix: Bool) async throws {
        let tunnels = try TunnelBench(isUnix: isUnix)
        let client = Array(exchange.client.utf8)
        let upstream = Array(exchange.upstream.utf8)
        let cuts =
            (0..<client.count).map { ([$0], [Int]()) } + (0..<upstream.count).map { ([Int](), [$0]) }
            + [(Array(1..<client.count), Array(1..<upstream.count))]
        let results = try await offPool { () throws -> Set<[String]> in
            var results: Set<[String]> = []
            for (clientCuts, upstreamCuts) in cuts {
                results.insert(try Self.run(tunnels, exchange, client, clientCuts, upstream, upstreamCuts))
            }
            return results
        }
        #expect(results == [[exchange.response, exchange.behind]])
    }

    private static func run(
        _ tunnels: TunnelBench, _ exchange: Exchange, _ client: [UInt8], _ clientCuts: [Int], _ upstream: [UInt8],
        _ upstreamCuts: [Int]
    ) throws -> [String] {
        let near = try tunnels.connect()
        try send(client, clientCuts, on: near)
        let far = try tunnels.accept()
        _ = try far.head()
        try send(upstream, upstreamCuts, on: far)
        let behind = try far.read(exchange.behind.utf8.count + (exchange.behind.contains("lanyard-x") ? 7 : 0))
        try far.send(exchange.last)
        let response = try near.read(exchange.response.utf8.count)
        near.socket.close()
        far.socket.close()
        return [response, behind.replacing(/lanyard-[0-9a-f]{8}/, with: "lanyard-x")]
    }

    private static func send(_ bytes: [UInt8], _ cuts: [Int], on end: TunnelBench.End) throws {
        var start = 0
        for cut in cuts + [bytes.count] {
            if start > 0 { usleep(cuts.count == 1 ? 1_500 : 200) }
            try end.socket.send(bytes[start..<cut])
            start = cut
        }
    }
}
