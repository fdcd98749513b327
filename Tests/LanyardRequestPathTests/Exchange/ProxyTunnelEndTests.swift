import Glibc
import LanyardFoundations
import LanyardRequestPath
import LanyardSettings
import TestSupport
import Testing

/// How tunnels end, and what they hold while they live.
@Suite struct ProxyTunnelEndTests {
    @Test("a reset is noticed while the other side takes nothing", arguments: [false, true])
    func resetWhileFull(_ byClient: Bool) async throws {
        let tunnels = try TunnelBench()
        do {
            let (client, upstream) = try tunnels.open()
            let (first, second) = byClient ? (client, upstream) : (upstream, client)
            // More than all buffers take, until the loop has moved what it can and the kernel still takes nothing.
            repeat {
                try first.socket.sendUntilFull([UInt8](repeating: 1, count: 1 << 16))
                try tunnels.bench.fence()
            } while Self.takesMore(first.socket)
            first.socket.reset()
            _ = try? second.rest()
        }
        try await eventually("the tunnel has ended") { tunnels.tunnels == 0 }
    }

    private static func takesMore(_ socket: RawSocket) -> Bool {
        socket.use { descriptor in
            var entry = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
            return poll(&entry, 1, 0) == 1
        } ?? false
    }

    @Test("both directions at once, with slow readers: every byte arrives", arguments: [false, true])
    func bulk(_ isUnix: Bool) async throws {
        let tunnels = try TunnelBench(isUnix: isUnix)
        let (client, upstream) = try tunnels.open()
        let size = 1 << 20
        // 251 is prime: a piece that is lost, doubled or moved breaks the pattern.
        let bytes = (0..<size).map { UInt8($0 % 251) }
        let ends = [(client.socket, upstream.socket), (upstream.socket, client.socket)]
        let faults = await withTaskGroup(of: String?.self) { group in
            for (from, to) in ends {
                group.addTask {
                    do {
                        do {
                            try from.send(bytes)
                            from.halfClose()
                        }
                        return nil
                    } catch { return "\(error)" }
                }
                group.addTask {
                    do {
                        var got: [UInt8] = []
                        while case let some = try to.receive(), !some.isEmpty { got += some }
                        return got == bytes ? nil : "\(got.count) bytes, or others"
                    } catch { return "\(error)" }
                }
            }
            return await group.reduce(into: [String]()) { if let fault = $1 { $0.append(fault) } }
        }
        #expect(faults == [])
    }

    @Test("logout and switch end the tunnels of routes that say so, at once; a new generation ends none")
    func sessions() async throws {
        let closers: [[RouteSettings.TunnelCloser]] = [[], [.logout], [.switch], [.logout, .switch]]
        for closesOn in closers {
            let tunnels = try TunnelBench(plan: { $0.route.closeUpgradedOn = closesOn })
            let bench = tunnels.bench
            for event in RouteSettings.TunnelCloser.allCases {
                let (client, upstream) = try tunnels.open()
                bench.publish(generation: 2)
                bench.path.publish(.pending, for: ProxyBench.user)
                bench.path.publish(.none(.identityUnreachable(nextAttemptAt: .never)), for: ProxyBench.user)
                bench.path.activate(ProxyBench.user)
                bench.path.activate(nil)
                bench.settle()
                try client.send("still")
                #expect(try upstream.read(5) == "still")
                switch event {
                case .logout: bench.path.publish(.none(.loginRequired), for: ProxyBench.user)
                case .switch: bench.path.activate(UserIndex(1))
                }
                bench.settle()
                #expect(tunnels.tunnels == (closesOn.contains(event) ? 0 : 1), "\(closesOn) \(event)")
                if closesOn.contains(event) {
                    #expect(try client.rest() == ("", false))
                    #expect(try upstream.rest() == ("", false))
                } else {
                    try client.send("still")
                    #expect(try upstream.read(5) == "still")
                    client.socket.close()
                    upstream.socket.close()
                }
                bench.publish(generation: 3)
                bench.path.activate(ProxyBench.user)
                bench.settle()
            }
        }
    }

    @Test(
        "another account ends the tunnels of routes that say logout or switch before its token comes; the same account ends none"
    )
    func accounts() async throws {
        for closesOn in [[], [.logout], [.switch]] as [[RouteSettings.TunnelCloser]] {
            let tunnels = try TunnelBench(plan: { $0.route.closeUpgradedOn = closesOn })
            let bench = tunnels.bench
            bench.publish(generation: 2, account: 7)
            let (client, upstream) = try tunnels.open()
            bench.path.publish(AccountNumber(7), for: ProxyBench.user)
            bench.settle()
            try client.send("still")
            #expect(try upstream.read(5) == "still")
            bench.path.publish(AccountNumber(8), for: ProxyBench.user)
            bench.settle()
            #expect(tunnels.tunnels == (closesOn.isEmpty ? 1 : 0))
            guard !closesOn.isEmpty else {
                client.socket.close()
                upstream.socket.close()
                continue
            }
            #expect(try client.rest() == ("", false))
            #expect(try upstream.rest() == ("", false))
        }
    }

    @Test("an upgrade that an upstream grants after the user has become another account has no tunnel")
    func accountWhileOpening() async throws {
        let tunnels = try TunnelBench()
        tunnels.bench.publish(generation: 2, account: 7)
        let client = try tunnels.connect()
        try client.send(TunnelBench.asking)
        let upstream = try tunnels.accept()
        _ = try upstream.head()
        tunnels.bench.publish(generation: 3, account: 8)
        try upstream.send(TunnelBench.granting)
        #expect(try client.rest().text == TunnelBench.granted)
        #expect(tunnels.tunnels == 0)
    }

    @Test(
        "a route that pins its user does not care who is active; who logged out while the upgrade was asked for has no tunnel"
    )
    func pinned() async throws {
        let tunnels = try TunnelBench(plan: {
            $0.route.user = "alice"
            $0.route.closeUpgradedOn = [.logout, .switch]
        })
        let (client, upstream) = try tunnels.open()
        tunnels.bench.path.activate(UserIndex(1))
        tunnels.bench.settle()
        try client.send("still")
        #expect(try upstream.read(5) == "still")
        let late = try tunnels.connect()
        try late.send(TunnelBench.asking + "early")
        let other = try tunnels.accept()
        _ = try other.head()
        tunnels.bench.path.publish(.none(.credentialRefused(because: "why")), for: ProxyBench.user)
        tunnels.bench.settle()
        #expect(try client.rest() == ("", false))
        try other.send(TunnelBench.granting)
        #expect(try late.rest().text == TunnelBench.granted)
        #expect(tunnels.tunnels == 0)
    }

    @Test(
        """
        another account of the same user ends the tunnels of routes that say logout or switch, pinned or not; the \
        same one again ends none
        """,
        arguments: [false, true])
    func accounts(_ isPinned: Bool) async throws {
        let closers: [[RouteSettings.TunnelCloser]] = [[], [.logout], [.switch]]
        for closesOn in closers {
            let tunnels = try TunnelBench(plan: {
                $0.publishes = false
                $0.route.closeUpgradedOn = closesOn
                if isPinned { $0.route.user = "alice" }
            })
            let bench = tunnels.bench
            bench.publish(generation: 1, account: 1)
            let (client, upstream) = try tunnels.open()
            bench.publish(generation: 2, account: 1)
            if closesOn != [.logout] {
                bench.path.publish(.none(.loginRequired), for: ProxyBench.user)
                bench.publish(generation: 3, account: 1)
            }
            try client.send("still")
            #expect(try upstream.read(5) == "still")
            bench.publish(generation: 4, account: 2)
            #expect(tunnels.tunnels == (closesOn.isEmpty ? 1 : 0), "\(closesOn)")
            if closesOn.isEmpty {
                try client.send("still")
                #expect(try upstream.read(5) == "still")
            } else {
                #expect(try client.rest() == ("", false))
                #expect(try upstream.rest() == ("", false))
            }
        }
    }

    @Test("a tunnel holds its slot of the route's connections while it lives, and is never pooled")
    func slot() async throws {
        let tunnels = try TunnelBench(plan: {
            $0.upstream.connectionsMax = 1
            $0.upstream.timeouts.connect = .milliseconds(300)
        })
        let (client, upstream) = try tunnels.open()
        let other = try RawClient(tunnels.bench.endpoint)
        #expect(try other.exchange("GET", "/").status == 503)
        try other.send("GET /waits HTTP/1.1\r\nHost: localhost\r\n\r\n")
        client.socket.close()
        _ = try upstream.rest()
        upstream.socket.close()
        let next = try tunnels.accept()
        #expect(try next.head().hasPrefix("GET /waits "))
        try next.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        #expect(try other.response().status == 200)
    }
}
