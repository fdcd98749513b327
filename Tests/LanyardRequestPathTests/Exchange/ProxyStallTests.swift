import Glibc
import LanyardFoundations
import LanyardRequestPath
import LanyardSettings
import TestSupport
import Testing

/// A side that stands still, or turns away, in the middle of an exchange: which work of the other side continues.
///
/// Over unix sockets, whose buffers hold about 200 KiB and do not grow.
@Suite struct ProxyStallTests {
    private static let post = "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: "

    /// A bench before one upstream connection that the test serves by hand.
    private final class Stage: Sendable {
        let folder: TemporaryFolder
        let listener: RawSocket
        let bench: ProxyBench

        init(_ configure: (inout ProxyBench.Plan) -> Void = { _ in }) throws {
            let folder = try TemporaryFolder()
            let upstream = folder.file("up.sock")
            listener = try RawSocket.listen(at: .unix(upstream))
            bench = try ProxyBench(plan: {
                $0.usesUpstream = false
                $0.upstream.endpoint = .unix(path: upstream)
                $0.listener = ListenerSettings(address: .unix(path: folder.file("in.sock")))
                configure(&$0)
            })
            self.folder = folder
        }
    }

    private static let hour = Duration.seconds(3600)
    private static let nanosecond = Duration.nanoseconds(1)

    @Test("a token that ends while its head waits for the upstream to take it is not sent any more")
    func expiredInWait() async throws {
        let stage = try Stage {
            $0.limits.headerBytesMax = 1 << 20
            $0.upstream.timeouts.write = Self.hour * 2
            $0.upstream.timeouts.requestIdle = Self.hour * 2
            $0.timeStands = true
        }
        defer { withExtendedLifetime(stage) {} }
        let (bench, listener) = (stage.bench, stage.listener)
        bench.publish(generation: 1, usableUntil: bench.now + Self.hour)
        let fields = (0..<60).map { "X\($0): \(String(repeating: "x", count: 15_000))\r\n" }.joined()
        async let response = bench.ask("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\(fields)\r\nbody")
        let socket = try #require(listener.accept())
        // It connects when it has the whole head.
        bench.pass(Self.hour)
        let received = String(decoding: try RawReader(socket).readToEnd(), as: UTF8.self)
        #expect(received.hasPrefix("POST / HTTP/1.1\r\n"))
        #expect(!received.contains(ProxyBench.token) && !received.contains("\r\n\r\n"))
        let refused = try await response
        #expect(refused.status == 504)
        #expect(refused["Proxy-Status"] == "lanyard; error=connection_write_timeout")
    }

    /// What the upstream responds before it has taken the head of the request.
    enum EarlyResponse: CaseIterable { case refusalReplayed, refusalRelayed, other }

    @Test(
        "a token that ends behind a response to a half-taken head: the response is relayed or replaced, the head is not sent on",
        arguments: EarlyResponse.allCases)
    func expiredBehindResponse(_ response: EarlyResponse) async throws {
        let stage = try Stage {
            $0.limits.headerBytesMax = 1 << 20
            $0.upstream.timeouts.write = Self.hour * 2
            $0.upstream.timeouts.responseIdle = Self.hour * 2
            $0.tokenWaitMax = Self.hour * 4
            $0.timeStands = true
        }
        defer { withExtendedLifetime(stage) {} }
        let (bench, listener) = (stage.bench, stage.listener)
        bench.publish(generation: 1, usableUntil: bench.now + Self.hour)
        let fields = (0..<60).map { "X\($0): \(String(repeating: "x", count: 15_000))\r\n" }.joined()
        try await bench.talk { client throws in
            try client.send("GET / HTTP/1.1\r\nHost: localhost\r\n\(fields)\r\n")
            let first = try #require(listener.accept())
            bench.pass(.zero)
            let status = response == .other ? "200 OK" : "401 No"
            try first.send("HTTP/1.1 \(status)\r\nContent-Length: 2\r\n\r\nn".utf8)
            bench.pass(.zero)
            #expect(bench.tokens.refused.isEmpty == (response == .other))
            bench.pass(Self.hour)
            // The upstream takes what the kernel has, so that the rest could be sent.
            var taken: [UInt8] = []
            while let part = first.receiveNow(max: 1 << 16), !part.isEmpty {
                taken += part
                bench.pass(.zero)
            }
            switch response {
            case .refusalReplayed: bench.publish(generation: 2, token: "token-2", usableUntil: bench.now + Self.hour)
            case .refusalRelayed: bench.path.publish(.none(.loginRequired), for: ProxyBench.user)
            case .other: break
            }
            if response == .refusalReplayed {
                let second = try #require(listener.accept())
                let request = try #require(try RawReader(second).readRequest())
                #expect(request["Authorization"] == "Bearer token-2")
                try second.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".utf8)
            } else {
                try first.send("o".utf8)
            }
            let relayed = try client.response()
            #expect(relayed.status == (response == .refusalRelayed ? 401 : 200))
            #expect(relayed.bodyText == (response == .refusalReplayed ? "ok" : "no"))
            taken += try RawReader(first).readToAnyEnd().bytes
            let text = String(decoding: taken, as: UTF8.self)
            #expect(text.hasPrefix("GET / HTTP/1.1\r\n") && !text.contains(ProxyBench.token))
        }
    }

    @Test(
        "the head of a request that asks for 100 must be taken within the write time-out; the 100 is due a second after it went",
        arguments: [true, false])
    func expectInWait(_ isTaken: Bool) async throws {
        let stage = try Stage {
            $0.limits.headerBytesMax = 1 << 20
            $0.upstream.timeouts.write = isTaken ? Self.hour * 2 : Self.hour
            $0.upstream.timeouts.requestIdle = Self.hour * 2
            $0.timeStands = true
        }
        defer { withExtendedLifetime(stage) {} }
        let (bench, listener) = (stage.bench, stage.listener)
        let fields = (0..<60).map { "X\($0): \(String(repeating: "x", count: 15_000))\r\n" }.joined()
        try await bench.talk { client throws in
            try client.send(Self.post + "4\r\nExpect: 100-continue\r\n\(fields)\r\n")
            let socket = try #require(listener.accept())
            bench.pass(Self.hour - Self.nanosecond)
            #expect(client.socket.receiveNow(max: 1) == nil)
            guard isTaken else {
                bench.pass(Self.nanosecond)
                let refused = try client.reader.readResponse(to: "POST")
                #expect(refused.status == 504)
                return #expect(refused["Proxy-Status"] == "lanyard; error=connection_write_timeout")
            }
            let reader = RawReader(socket)
            _ = try reader.readHead()
            bench.pass(.seconds(1) - Self.nanosecond)
            #expect(client.socket.receiveNow(max: 1) == nil)
            bench.pass(Self.nanosecond)
            #expect(try client.reader.readResponse(to: "POST").status == 100)
            try client.send("body")
            #expect(try reader.read(4) == Array("body".utf8))
            try socket.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".utf8)
            #expect(try client.reader.readResponse(to: "POST").status == 200)
        }
    }

    @Test("a kept connection that takes no byte of a request carries none: any method goes to another connection")
    func closedForReading() async throws {
        let stage = try Stage()
        defer { withExtendedLifetime(stage) {} }
        let (bench, listener) = (stage.bench, stage.listener)
        let body = String(repeating: "b", count: 100_000)
        async let upstream = try { () throws -> String in
            let ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
            let first = try #require(listener.accept())
            _ = try RawReader(first).readRequest()
            first.refuseInput()
            try first.send(ok.utf8)
            let second = try #require(listener.accept())
            let message = try #require(try RawReader(second).readRequest())
            try second.send(ok.utf8)
            return message.bodyText
        }()
        let statuses = try await bench.talk { client throws in
            let first = try client.exchange("GET", "/").status
            return [first, try client.exchange("POST", "/", body: Array(body.utf8)).status]
        }
        #expect(statuses == [200, 200])
        #expect(try await upstream == body)
    }

    /// What a client does with its upload once the response has begun.
    enum Upload: CaseIterable { case stalls, isHalfClosed, isNotTaken }

    @Test(
        "a response that began before the upload's end is relayed to its end, whatever becomes of the upload",
        arguments: Upload.allCases)
    func earlyResponse(_ upload: Upload) async throws {
        let stage = try Stage {
            $0.upstream.timeouts.requestIdle = Self.hour
            $0.upstream.timeouts.write = Self.hour
            $0.upstream.timeouts.responseIdle = Self.hour * 5
            $0.timeStands = true
        }
        defer { withExtendedLifetime(stage) {} }
        let (bench, listener) = (stage.bench, stage.listener)
        let size = 1_000_000
        let isLate = Milestone()
        defer { isLate.set() }
        async let upstream = try { () throws -> Int in
            let socket = try #require(listener.accept())
            _ = try socket.receive(through: "\r\n\r\n")
            try socket.send("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nabc".utf8)
            isLate.wait(for: "the upload's time has ended")
            try socket.send("def".utf8)
            return try RawReader(socket).readToEnd().count
        }()
        let response = try await bench.talk { client throws in
            try client.send(Self.post + "\(size)\r\n\r\n")
            let head = try client.read(1)
            if upload == .isHalfClosed { client.halfClose() }
            if upload == .isNotTaken { #expect(Self.fill(client.socket, of: bench, upTo: size) < size) }
            bench.pass(Self.hour * 2)
            isLate.set()
            return head + (try client.readToEnd())
        }
        let text = String(decoding: response, as: UTF8.self)
        #expect(text.contains("\r\nConnection: close\r\n"))
        #expect(text.hasSuffix("\r\n\r\nabcdef"), "\(text)")
        #expect(try await upstream < size)
    }

    /// Sends until neither the kernel nor the proxy takes any more.
    private static func fill(_ socket: RawSocket, of bench: ProxyBench, upTo size: Int) -> Int {
        let bytes = [UInt8](repeating: 7, count: size)
        var sent = 0
        while sent < size {
            // The proxy reads what it can.
            bench.pass(.zero)
            let count = socket.use { send($0, bytes, size - sent, CInt(MSG_DONTWAIT) | CInt(MSG_NOSIGNAL)) } ?? -1
            guard count > 0 else { break }
            sent += count
        }
        return sent
    }

    /// A client that has asked for a response, all of which has come from the upstream, and whose end still waits in the proxy.
    private static func tailed(
        _ stage: Stage, behind: String = ""
    ) throws -> (client: RawClient, size: Int) {
        let (bench, before) = (stage.bench, stage.bench.count("lanyard_buffer_bytes"))
        let client = try RawClient(bench.endpoint)
        try client.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n\(behind)")
        let upstream = try #require(stage.listener.accept())
        _ = try upstream.receive(through: "\r\n\r\n")
        let asked = bench.count("lanyard_requests")
        // The client's socket takes one half and a part of the other. Each comes while the proxy stands, so that one read
        // brings it.
        let half = [UInt8](repeating: 7, count: 140_000)
        let head = "HTTP/1.1 200 OK\r\nDate: d\r\nContent-Length: \(2 * half.count)\r\n\r\n"
        for bytes in [Array(head.utf8) + half, half] {
            let sent = bench.path.shards[0].loop.perform { (try? upstream.sendUntilFull(bytes, times: 1)) ?? 0 }
            guard sent == bytes.count else { throw TestFailure("the upstream's socket takes \(sent) bytes") }
            bench.pass(.zero)
        }
        upstream.close()
        // Counted when all of it has come. What the client's socket did not take is then in the proxy.
        try blockUntil("the answer has come") { bench.count("lanyard_requests") > asked }
        bench.pass(.zero)
        // A buffer for what has come behind may be held besides.
        let held = bench.count("lanyard_buffer_bytes") - before
        guard held >= 30_000 else { throw TestFailure("only \(held) bytes are in the proxy") }
        return (client, 2 * half.count + head.utf8.count)
    }

    @Test(
        "the idle time begins when the client has taken the last response; a drain's silence, too",
        arguments: [true, false])
    func tailIsNoSilence(_ drains: Bool) async throws {
        let stage = try Stage {
            $0.limits.idleTimeout = drains ? Self.hour * 10 : Self.hour
            $0.upstream.timeouts.write = Self.hour * 10
            $0.timeStands = true
        }
        defer { withExtendedLifetime(stage) {} }
        let (client, size) = try Self.tailed(stage)
        if drains { stage.bench.drain() }
        stage.bench.pass(Self.hour * 2)
        #expect(try client.read(size).count == size)
        stage.bench.pass((drains ? .milliseconds(500) : Self.hour) - Self.nanosecond)
        #expect(client.socket.receiveNow(max: 1) == nil)
        stage.bench.pass(Self.nanosecond)
        #expect(try client.readToEnd() == [])
        client.close()
    }

    @Test("what comes behind a response whose end waits is read when that is taken, its time beginning then")
    func headBehindTail() async throws {
        let stage = try Stage {
            $0.limits.idleTimeout = .seconds(300)
            $0.limits.headerTimeout = Self.hour
            $0.upstream.timeouts.write = Self.hour * 10
            $0.timeStands = true
        }
        defer { withExtendedLifetime(stage) {} }
        let (client, size) = try Self.tailed(stage, behind: "GET /next HTTP/1.1\r\n")
        stage.bench.pass(Self.hour * 2)
        #expect(try client.read(size).count == size)
        stage.bench.pass(Self.hour - Self.nanosecond)
        try client.send("Host: localhost\r\n\r\n")
        let upstream = try #require(stage.listener.accept())
        _ = try upstream.receive(through: "\r\n\r\n")
        try upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".utf8)
        #expect(try client.response().status == 200)
    }

    @Test(
        "a client that takes nothing of a response's end is given up after the write time of its route, and no sooner")
    func tailNotTaken() async throws {
        let stage = try Stage {
            $0.upstream.timeouts.write = Self.hour
            $0.limits.idleTimeout = .seconds(1)
            $0.timeStands = true
        }
        defer { withExtendedLifetime(stage) {} }
        let (client, size) = try Self.tailed(stage)
        stage.bench.pass(Self.hour - Self.nanosecond)
        #expect(stage.bench.path.shards[0].load.value == 1)
        stage.bench.pass(Self.nanosecond)
        #expect(stage.bench.path.shards[0].load.value == 0)
        let count = try client.reader.readToAnyEnd().bytes.count
        #expect(count < size)
    }

    @Test("an upload goes to its end, however long after the client has taken an interim response slowly")
    func uploadBehindInterim() async throws {
        let stage = try Stage {
            $0.limits.responseHeader.bytesMax = 1 << 20
            $0.upstream.timeouts.write = Self.hour
            $0.upstream.timeouts.requestIdle = Self.hour * 10
            $0.upstream.timeouts.responseHeader = Self.hour * 10
            $0.timeStands = true
        }
        defer { withExtendedLifetime(stage) {} }
        let (bench, listener) = (stage.bench, stage.listener)
        let fields = (0..<32).map { "X\($0): \(String(repeating: "x", count: 15_000))\r\n" }.joined()
        let hint = Array("HTTP/1.1 103 Hint\r\n\(fields)\r\n".utf8)
        // The kernel has room for a part of the hint alone.
        let response = try await bench.talk(receiveBuffer: 8192) { client throws in
            try client.send(Self.post + "4\r\n\r\nbo")
            let upstream = try #require(listener.accept())
            defer { upstream.close() }
            _ = try upstream.receive(through: "bo")
            try upstream.send(hint)
            // The first half makes room for a part of what waits, the other half for the rest.
            for half in [hint.count / 2, hint.count - hint.count / 2] {
                #expect(try client.read(half).count == half)
                bench.pass(.zero)
            }
            bench.pass(Self.hour * 2)
            try client.send("dy")
            _ = try upstream.receive(through: "dy")
            try upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".utf8)
            return try client.response()
        }
        #expect(response.status == 200)
    }

    @Test("a client that takes interim responses slowly gets a held 401 after wait_max")
    func heldBehindInterim() async throws {
        let stage = try Stage {
            $0.limits.responseHeader.bytesMax = 1 << 20
            $0.upstream.timeouts.write = Self.hour * 10
            $0.tokenWaitMax = Self.hour
            $0.timeStands = true
        }
        defer { withExtendedLifetime(stage) {} }
        let (bench, listener) = (stage.bench, stage.listener)
        let fields = (0..<32).map { "X\($0): \(String(repeating: "x", count: 15_000))\r\n" }.joined()
        let hint = Array("HTTP/1.1 103 Hint\r\n\(fields)\r\n".utf8)
        try await bench.talk { client throws in
            try client.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            let upstream = try #require(listener.accept())
            defer { upstream.close() }
            _ = try upstream.receive(through: "\r\n\r\n")
            try upstream.send(hint.dropLast())
            bench.pass(.zero)
            // One read brings the end of the hint and the refusal.
            try upstream.send([hint.last!] + Array("HTTP/1.1 401 No\r\nContent-Length: 2\r\n\r\nno".utf8))
            let parked = { bench.count("lanyard_parked_requests") }
            try blockUntil("the response is held") { parked() == 1 }
            // What the client takes makes room for a part of what waits, then for the rest.
            #expect(try client.read(hint.count).count == hint.count)
            bench.pass(Self.hour - Self.nanosecond)
            #expect(parked() == 1)
            bench.pass(Self.nanosecond)
            try #require(parked() == 0)
            let response = try client.response()
            #expect(response.status == 401)
            #expect(response["Proxy-Status"]?.contains("refresh failed") == true, "\(response)")
        }
    }

    /// What a request waits for when its memory pause ends.
    enum PausedWait: CaseIterable { case upstreamWrite, continue100, body }

    @Test(
        "after a pause for want of memory each wait of an upload has its own time-out again",
        arguments: PausedWait.allCases)
    func pausedWaits(_ wait: PausedWait) async throws {
        let stage = try Stage {
            $0.upstream.timeouts.requestIdle = wait == .body ? .seconds(1) : Self.hour
            $0.upstream.timeouts.write = wait == .upstreamWrite ? .seconds(1) : Self.hour
            $0.timeStands = true
        }
        defer { withExtendedLifetime(stage) {} }
        let (bench, listener, budget) = (stage.bench, stage.listener, stage.bench.path.buffers)
        try await bench.talk { client throws in
            let size = 1_000_000
            try client.send(Self.post + "\(size)\r\n\(wait == .continue100 ? "Expect: 100-continue\r\n" : "")\r\n")
            let upstream = try #require(listener.accept())
            defer { upstream.close() }
            _ = try upstream.receive(through: "\r\n\r\n")
            if wait == .upstreamWrite { #expect(Self.fill(client.socket, of: bench, upTo: size) < size) }
            bench.pass(.zero)
            budget.add(budget.bytesMax)
            // Cannot be read, and would not end the wait.
            try upstream.send("HTTP".utf8)
            bench.pass(.seconds(1))
            #expect(client.socket.receiveNow(max: 1) == nil)
            budget.release(budget.bytesMax)
            bench.pass(.seconds(1) - Self.nanosecond)
            #expect(client.socket.receiveNow(max: 1) == nil)
            bench.pass(Self.nanosecond)
            let first = client.socket.receiveNow(max: 4096) ?? []
            let text = String(decoding: first, as: UTF8.self)
            #expect(text.hasPrefix("HTTP/1.1 \(wait == .upstreamWrite ? 504 : wait == .body ? 408 : 100) "), "\(text)")
        }
    }

    @Test("an upload that stalls before any response is 408, whose reader half-closes is 400")
    func stalledBeforeResponse() async throws {
        let stage = try Stage {
            $0.upstream.timeouts.requestIdle = Self.hour
            $0.timeStands = true
        }
        defer { withExtendedLifetime(stage) {} }
        let (bench, listener) = (stage.bench, stage.listener)
        for halfCloses in [false, true] {
            let status = try await bench.talk { client throws in
                try client.send(Self.post + "9\r\n\r\npart")
                let upstream = try #require(listener.accept())
                defer { upstream.close() }
                _ = try upstream.receive(through: "part")
                if halfCloses { client.halfClose() }
                bench.pass(Self.hour - Self.nanosecond)
                if !halfCloses { #expect(client.socket.receiveNow(max: 1) == nil) }
                bench.pass(Self.nanosecond)
                return try client.response().status
            }
            #expect(status == (halfCloses ? 400 : 408))
        }
    }

    @Test("a body that lasts until the close, and whose HTTP/1.0 reader stands still, is cut by a reset")
    func resetAtWriteTimeout() async throws {
        let bench = try ProxyBench { _ in
            RawResponse([
                .send(Array("HTTP/1.1 200 OK\r\n\r\n".utf8)),
                .repeated([UInt8](repeating: 7, count: 1 << 20), times: 64),
            ])
        } plan: {
            $0.upstream.timeouts.write = Self.hour
            $0.upstream.timeouts.responseIdle = nil
            $0.timeStands = true
        }
        try await bench.talk { client throws in
            try client.send("GET / HTTP/1.0\r\n\r\n")
            #expect(String(decoding: try client.read(12), as: UTF8.self) == "HTTP/1.1 200")
            try blockUntil("the upstream connection is given up") {
                bench.pass(Self.hour)
                return bench.count("lanyard_upstream_connections", ["state": "open"]) == 0
            }
            #expect(throws: TestFailure.self) { try client.readToEnd() }
        }
        #expect(bench.count("lanyard_requests", ["origin": "upstream"]) == 1)
    }
}
