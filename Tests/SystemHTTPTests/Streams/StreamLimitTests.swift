import Foundation
import TestSupport
import Testing

@testable import SystemTestSupport

/// What keeps moving is never cut, however long it takes; what stands still is cut where its route says so, in each direction by itself.
@Suite struct StreamLimitTests {
    private static let idle = Duration.seconds(60)
    private static let write = Duration.seconds(40)
    /// From a second before `write` has passed to the cut. The first look may still find that the kernel has sent bytes.
    private static let cutMax = write + .seconds(2)

    private let upstream: RawSocket
    private let clock: TestClock
    private let lanyard: LanyardProcess
    /// For `/sized/COUNT`: responds with so many bytes.
    private let sized: RawServer

    init() async throws {
        upstream = try RawSocket.listen(at: .tcp(0), receiveBuffer: 8192)
        sized = try RawServer { .large(Int($0.message.target.dropFirst("/sized/".count)) ?? 0) }
        clock = try TestClock()
        lanyard = try await LanyardProcess.start(
            """
            routes:
              - {name: sized, match: {path: /sized}, upstream: "http://\(sized.endpoint)", timeouts: {write: 1h}}
              - name: all
                upstream: "http://127.0.0.1:\(upstream.localPort)"
                timeouts: {request_idle: 60s, response_idle: 60s, response_header: 120s, write: 40s}
            limits: {idle_timeout: 60s, header_timeout: 1h}

            """, token: "stream-token", under: clock)
        try await lanyard.untilReady()
        clock.watch(sized.threads)
        clock.stop()
    }

    /// A client and its upstream connection, the request's head read.
    private static func meet(
        _ endpoint: RawEndpoint, _ listener: RawSocket, _ request: String, receiveBuffer: CInt? = nil
    ) throws -> (client: RawSocket, upstream: RawSocket) {
        let client = try RawSocket.connect(to: endpoint, receiveBuffer: receiveBuffer)
        try client.send("\(request)Host: \(endpoint)\r\n\r\n".utf8)
        guard let upstream = listener.accept() else { throw TestFailure("no connection comes") }
        _ = try upstream.receive(through: "\r\n\r\n")
        return (client, upstream)
    }

    @Test(
        "8.2 A download that sends a byte now and then outlives every idle limit; when it stands still, it is cut and cannot look whole"
    )
    func down() async throws {
        let (endpoint, listener) = (lanyard.data, upstream)
        let (client, upstream) = try Self.meet(endpoint, listener, "GET /drip HTTP/1.1\r\n")
        try upstream.send(Array("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".utf8))
        for _ in 0..<10 {
            try upstream.send(Array("1\r\nx\r\n".utf8))
            try await clock.pass(.seconds(50))
        }
        #expect(try KernelSocket.find(local: endpoint.port, remote: client.localPort)?.isOwned == true)
        try await clock.pass(.seconds(11))
        let text = String(decoding: try RawReader(client).readToEnd(), as: UTF8.self)
        #expect(text.hasSuffix("1\r\nx\r\n"))
        #expect(text.split(separator: "\r\n").count { $0 == "x" } == 10)
    }

    @Test(
        "8.2 An upload that sends a byte now and then outlives every idle limit; when it stands still, 408 and no end for the upstream"
    )
    func up() async throws {
        let (endpoint, listener) = (lanyard.data, upstream)
        let (client, upstream) = try Self.meet(
            endpoint, listener, "POST /drip HTTP/1.1\r\nTransfer-Encoding: chunked\r\n")
        for _ in 0..<10 {
            try client.send("1\r\nx\r\n".utf8)
            try await clock.pass(.seconds(50))
        }
        #expect(!client.hasInput)
        try await clock.pass(.seconds(11))
        let response = try RawReader(client).readResponse()
        #expect(response.status == 408 && response["Connection"] == "close")
        let text = String(decoding: try RawReader(upstream).readToEnd(), as: UTF8.self)
        #expect(text == String(repeating: "1\r\nx\r\n", count: 10))
    }

    /// Sends up to so many bytes, until Lanyard and the kernel take no more.
    ///
    /// - Returns: how many they have taken.
    private func fill(_ socket: RawSocket, _ count: Int) async throws -> Int {
        var sent = 0
        while sent < count {
            let more = try socket.sendUntilFull([UInt8](repeating: 0x7a, count: min(count - sent, 1 << 20)), times: 1)
            if more == 0 { break }
            sent += more
            try await clock.settle()
        }
        return sent
    }

    /// Sends so many bytes on a thread of its own.
    private static func send(_ count: Int, on socket: RawSocket) {
        Thread.detachNewThread {
            var left = count
            while left > 0 {
                let block = [UInt8](repeating: 0x7a, count: min(left, 1 << 16))
                guard (try? socket.send(block)) != nil else { return }
                left -= block.count
            }
        }
    }

    @Test("14.2 A slow reader slows the sender, and gets every byte in the end")
    func pressure() async throws {
        let size = 32 << 20
        let (client, upstream) = try Self.meet(lanyard.data, upstream, "GET /large HTTP/1.1\r\n", receiveBuffer: 8192)
        try upstream.send("HTTP/1.1 200 OK\r\nContent-Length: \(size)\r\n\r\n".utf8)
        // Nothing is read: what the kernels and Lanyard hold is far from all.
        let held = try await fill(upstream, size)
        #expect(held < 24 << 20, "\(held) bytes went without a reader")
        Self.send(size - held, on: upstream)
        #expect(try RawReader(client).readResponse(bodyBytesMax: 0).bodyCount == size)
    }

    @Test(
        "8.2 A reader that takes a little at a time is not cut, one that stands still is: by timeouts.write, and not before"
    )
    func writing() async throws {
        let size = 48 << 20
        let head = "HTTP/1.1 200 OK\r\nContent-Length: \(size)\r\n\r\n"
        for isStanding in [false, true] {
            let (client, upstream) = try Self.meet(
                lanyard.data, upstream, "GET /large HTTP/1.1\r\n", receiveBuffer: 8192)
            try upstream.send(head.utf8)
            var sent = try await fill(upstream, size)
            if isStanding {
                #expect(sent < size)
                try await clock.pass(Self.write - .seconds(1))
                #expect(!upstream.hasInput)
                try await clock.pass(Self.cutMax)
                #expect(upstream.hasInput)
                // What the kernel holds still comes, or a reset.
                return #expect(try RawReader(client).readToAnyEnd().bytes.count < size)
            }
            var taken: [UInt8] = []
            for _ in 0..<12 {
                try await clock.pass(Self.write / 2)
                taken += try client.receive(max: 8192)
                sent += try await fill(upstream, size - sent)
            }
            Self.send(size - sent, on: upstream)
            var count = taken.count
            let end = size + (taken.firstRange(of: Array("\r\n\r\n".utf8))?.upperBound ?? 0)
            while count < end { count += try client.receive(max: 1 << 18).count }
            #expect(count == end)
        }
    }

    /// Sizes of responses whose end waits, for a client that reads nothing, in the kernel or in the proxy: how much the
    /// kernel takes is its own affair, so that it takes a crowd to meet both.
    private static let tails = Array(stride(from: 100_000, through: 200_000, by: 7_000))

    @Test(
        "8.2 A client that is slow to take the end of a whole response gets all of it, and is idle only from then on",
        arguments: [true, false])
    func tail(_ moves: Bool) async throws {
        let endpoint = lanyard.data
        // Part of the next request waits behind it.
        let (start, end) = ("GET /sized/5 HTTP/1.1\r\nHo", "st: \(endpoint)\r\n\r\n")
        let clients = try Self.tails.map { size in
            let client = try RawSocket.connect(to: endpoint, receiveBuffer: 4096)
            try client.send("GET /sized/\(size) HTTP/1.1\r\nHost: \(endpoint)\r\n\r\n\(moves ? start : "")".utf8)
            return client
        }
        var taken = clients.map { _ in [UInt8]() }
        for _ in 0..<12 {
            try await clock.pass(Self.idle / 4)
            guard moves else { continue }
            for (index, client) in clients.enumerated() { taken[index] += client.receiveNow(max: 1000) ?? [] }
        }
        for (index, client) in clients.enumerated() {
            let size = Self.tails[index]
            while true {
                if let body = taken[index].firstRange(of: Array("\r\n\r\n".utf8))?.upperBound,
                    taken[index].count >= body + size
                {
                    break
                }
                let bytes = try client.receive(max: 1 << 18)
                guard !bytes.isEmpty else { throw TestFailure("\(size) bytes: cut") }
                taken[index] += bytes
            }
            try client.send(((moves ? "" : start) + end).utf8)
            #expect(try RawReader(client).readResponse().bodyCount == 5, "\(size) bytes: no next response")
        }
        try await clock.pass(Self.idle - .seconds(1))
        #expect(clients.filter(\.hasInput).isEmpty, "ended early")
        try await clock.pass(.seconds(2))
        for client in clients { #expect(try RawReader(client).readToAnyEnd() == ([], false)) }
    }

    @Test("8.2 An upstream that takes a little of an upload at a time is not cut; one that takes nothing is, with 504")
    func writingUp() async throws {
        let size = 48 << 20
        for isStanding in [false, true] {
            let (client, upstream) = try Self.meet(
                lanyard.data, upstream, "PUT /large HTTP/1.1\r\nContent-Length: \(size)\r\n")
            var sent = try await fill(client, size)
            if isStanding {
                #expect(sent < size)
                try await clock.pass(Self.write - .seconds(1))
                #expect(!client.hasInput)
                try await clock.pass(Self.cutMax)
                return #expect(try RawReader(client).readResponse().status == 504)
            }
            var count = 0
            for _ in 0..<12 {
                try await clock.pass(Self.write / 2)
                count += try upstream.receive(max: 8192).count
                sent += try await fill(client, size - sent)
            }
            Self.send(size - sent, on: client)
            while count < size { count += try upstream.receive(max: 1 << 18).count }
            #expect(count == size)
            try upstream.send(Array("HTTP/1.1 201 Created\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".utf8))
            #expect(try RawReader(client).readResponse().status == 201)
        }
    }
}
