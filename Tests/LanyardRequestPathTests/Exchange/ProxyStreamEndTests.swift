import LanyardFoundations
import LanyardRequestPath
import LanyardSettings
import TestSupport
import Testing

/// `close_streams_on`: what ends responses in progress.
@Suite struct ProxyStreamEndTests {
    private static let asking = "GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n"
    private static let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"

    /// A stream of which the client has one byte.
    private static func open(_ bench: TunnelBench) throws -> (client: TunnelBench.End, upstream: TunnelBench.End) {
        let client = try bench.connect()
        try client.send(asking)
        let upstream = try bench.accept()
        _ = try upstream.head()
        try upstream.send(head + "1\r\na\r\n")
        #expect(try client.head().hasPrefix("HTTP/1.1 200"))
        #expect(try client.read(6) == "1\r\na\r\n")
        return (client, upstream)
    }

    @Test("logout and switch cut the responses of routes that say so, at once; a new generation cuts none")
    func sessions() throws {
        let closers: [[RouteSettings.TunnelCloser]] = [[], [.logout], [.switch], [.logout, .switch]]
        for closesOn in closers {
            let streams = try TunnelBench(plan: { $0.route.closeStreamsOn = closesOn })
            let bench = streams.bench
            for event in RouteSettings.TunnelCloser.allCases {
                let (client, upstream) = try Self.open(streams)
                bench.publish(generation: 2)
                bench.path.publish(.none(.identityUnreachable(nextAttemptAt: .never)), for: ProxyBench.user)
                bench.path.activate(nil)
                bench.settle()
                try upstream.send("1\r\nb\r\n")
                #expect(try client.read(6) == "1\r\nb\r\n")
                switch event {
                case .logout: bench.path.publish(.none(.loginRequired), for: ProxyBench.user)
                case .switch: bench.path.activate(UserIndex(1))
                }
                bench.settle()
                if closesOn.contains(event) {
                    // Without a last chunk: the client sees that it was cut.
                    #expect(try client.rest().text == "")
                    #expect(try upstream.rest().text == "")
                } else {
                    try upstream.send("1\r\nc\r\n0\r\n\r\n")
                    #expect(try client.read(11) == "1\r\nc\r\n0\r\n\r\n")
                    client.socket.close()
                    upstream.socket.close()
                }
                bench.publish(generation: 3)
                bench.path.activate(ProxyBench.user)
                bench.settle()
            }
        }
    }

    @Test("another account of the user cuts as a logout and as a switch do")
    func accounts() throws {
        for closesOn in [[], [.logout], [.switch]] as [[RouteSettings.TunnelCloser]] {
            let streams = try TunnelBench(plan: { $0.route.closeStreamsOn = closesOn })
            let bench = streams.bench
            bench.publish(generation: 2, account: 7)
            let (client, upstream) = try Self.open(streams)
            bench.path.publish(AccountNumber(7), for: ProxyBench.user)
            bench.settle()
            try upstream.send("1\r\nb\r\n")
            #expect(try client.read(6) == "1\r\nb\r\n")
            bench.path.publish(AccountNumber(8), for: ProxyBench.user)
            bench.settle()
            if closesOn.isEmpty {
                try upstream.send("1\r\nc\r\n")
                #expect(try client.read(6) == "1\r\nc\r\n")
                client.socket.close()
                upstream.socket.close()
            } else {
                #expect(try client.rest().text == "")
            }
        }
    }

    @Test("a response that begins after the logout is cut, unless it has come whole; one of HTTP/1.0 is reset")
    func late() throws {
        for isWhole in [true, false] {
            let streams = try TunnelBench(plan: { $0.route.closeStreamsOn = [.logout] })
            let client = try streams.connect()
            try client.send(Self.asking)
            let upstream = try streams.accept()
            _ = try upstream.head()
            streams.bench.path.publish(.none(.loginRequired), for: ProxyBench.user)
            streams.bench.settle()
            try upstream.send(Self.head + "1\r\na\r\n" + (isWhole ? "0\r\n\r\n" : ""))
            #expect(try client.head().hasPrefix("HTTP/1.1 200"))
            if isWhole {
                #expect(try client.read(11) == "1\r\na\r\n0\r\n\r\n")
                client.socket.close()
                upstream.socket.close()
            } else {
                #expect(try !client.rest().text.hasSuffix("0\r\n\r\n"))
            }
        }
        let streams = try TunnelBench(plan: { $0.route.closeStreamsOn = [.logout] })
        let client = try streams.connect()
        try client.send("GET /events HTTP/1.0\r\nHost: localhost\r\n\r\n")
        let upstream = try streams.accept()
        _ = try upstream.head()
        try upstream.send("HTTP/1.1 200 OK\r\n\r\na")
        _ = try client.head()
        #expect(try client.read(1) == "a")
        streams.bench.path.publish(.none(.loginRequired), for: ProxyBench.user)
        streams.bench.settle()
        #expect(try client.rest().wasReset)
    }
}
