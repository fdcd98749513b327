import Foundation
import TestSupport
import Testing

@testable import SystemTestSupport

/// What keeps moving is never cut, however long it takes; what stands still is cut where its route says so, in each direction by itself.
@Suite struct StreamLimitTests {
    private let upstream: RawSocket
    private let clock: TestClock
    private let lanyard: LanyardProcess

    init() async throws {
        upstream = try RawSocket.listen(at: .tcp(0))
        clock = try TestClock()
        lanyard = try await LanyardProcess.start(
            before: "http://127.0.0.1:\(upstream.localPort)",
            route: "timeouts: {request_idle: 60s, response_idle: 60s, response_header: 120s}", under: clock)
        clock.stop()
    }

    /// A client and its upstream connection, the request's head read.
    private static func meet(
        _ endpoint: RawEndpoint, _ listener: RawSocket, _ request: String
    ) throws -> (client: RawClient, upstream: RawSocket) {
        let client = try RawClient(endpoint)
        try client.send(request + "Host: \(endpoint)\r\n\r\n")
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
        #expect(try KernelSocket.find(local: endpoint.port, remote: client.socket.localPort)?.isOwned == true)
        try await clock.pass(.seconds(11))
        let text = String(decoding: try client.readToEnd(), as: UTF8.self)
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
            try client.send("1\r\nx\r\n")
            try await clock.pass(.seconds(50))
        }
        #expect(!client.socket.hasInput)
        try await clock.pass(.seconds(11))
        let response = try client.response()
        #expect(response.status == 408 && response["Connection"] == "close")
        let text = String(decoding: try RawReader(upstream).readToEnd(), as: UTF8.self)
        #expect(text == String(repeating: "1\r\nx\r\n", count: 10))
    }

    @Test("14.2 A slow reader slows the sender, and gets every byte in the end")
    func pressure() async throws {
        let (endpoint, listener) = (lanyard.data, upstream)
        let (sent, received) = try {
            let socket = try RawSocket.connect(to: endpoint, receiveBuffer: 8192)
            try socket.send(Array("GET /large HTTP/1.1\r\nHost: \(endpoint)\r\n\r\n".utf8))
            guard let upstream = listener.accept() else { throw TestFailure("no connection comes") }
            _ = try upstream.receive(through: "\r\n\r\n")
            let size = 32 << 20
            try upstream.send(Array("HTTP/1.1 200 OK\r\nContent-Length: \(size)\r\n\r\n".utf8))
            let block = [UInt8](repeating: 0x7a, count: 1 << 16)
            let sent = Tally()
            Thread.detachNewThread {
                while sent.value < size {
                    guard (try? upstream.send(block)) != nil else { return }
                    sent.add(block.count)
                }
            }
            // Nothing is read: what the kernels and Lanyard hold is far from all, and stays the same.
            Thread.sleep(forTimeInterval: 0.5)
            let held = sent.value
            let response = try RawReader(socket).readResponse(bodyBytesMax: 0)
            return (held, response.bodyCount)
        }()
        #expect(sent < 24 << 20, "\(sent) bytes went without a reader")
        #expect(received == 32 << 20)
    }

    @Test(
        "8.2 A reader that takes a little at a time is not cut, one that stands still is: by timeouts.write, and not before"
    )
    func writing() async throws {
        let size = 48 << 20
        let upstream = try RawServer(requestsKeptMax: 0) { _ in .large(size).closing }
        let lanyard = try await LanyardProcess.start(
            before: "http://\(upstream.endpoint)", route: "timeouts: {write: 1s}")
        let endpoint = lanyard.data
        let request = Array("GET /large HTTP/1.1\r\nHost: \(endpoint)\r\nConnection: close\r\n\r\n".utf8)
        let taken = try {
            let client = try RawSocket.connect(to: endpoint, receiveBuffer: 8192)
            try client.send(request)
            var count = 0
            for turn in 0... {
                let bytes = try client.receive(max: turn < 12 ? 8192 : 1 << 18)
                if bytes.isEmpty { break }
                count += bytes.count
                if turn < 12 { Thread.sleep(forTimeInterval: 0.5) }
            }
            return count
        }()
        #expect(taken > size && taken < size + 1000, "\(taken)")
        try await eventually("the first has ended") { upstream.openCount == 0 }
        let before = upstream.connectionCount
        let start = ContinuousClock.now
        let standing = try {
            let client = try RawSocket.connect(to: endpoint, receiveBuffer: 8192)
            try client.send(request)
            return client
        }()
        try await eventually("it is cut") {
            upstream.connectionCount > before && upstream.openCount == 0
        }
        #expect(ContinuousClock.now - start >= .seconds(1))
        standing.close()
        try await lanyard.process.terminate()
    }

    /// Sizes of responses whose end waits, for a client that reads nothing, in the kernel or in the proxy: how much the
    /// kernel takes is its own affair, so that it takes a crowd to meet both.
    private static let tails = Array(stride(from: 100_000, through: 200_000, by: 7_000))

    /// Asks for a response of each of these sizes, one client each, side by side, and has `read` take them.
    private static func meetTails<Value: Sendable>(
        _ endpoint: RawEndpoint, behind: String = "", _ read: @escaping @Sendable (RawSocket, Int) throws -> Value
    ) async throws -> [Value] {
        try await withThrowingTaskGroup(of: Value.self) { group in
            for size in tails {
                group.addTask {
                    try {
                        let client = try RawSocket.connect(to: endpoint, receiveBuffer: 4096)
                        try client.send("GET /\(size) HTTP/1.1\r\nHost: \(endpoint)\r\n\r\n\(behind)".utf8)
                        return try read(client, size)
                    }()
                }
            }
            return try await group.reduce(into: []) { $0.append($1) }
        }
    }

    private static func sized(_ request: RawServer.Request) -> RawResponse {
        .large(Int(request.message.target.dropFirst()) ?? 0)
    }

    @Test(
        "8.2 A client that is slow to take the end of a whole response gets all of it, and is idle only from then on",
        arguments: [true, false])
    func tail(_ moves: Bool) async throws {
        let upstream = try RawServer(script: Self.sized)
        let lanyard = try await LanyardProcess.start(
            before: "http://\(upstream.endpoint)", rest: "limits: {idle_timeout: 1s}")
        let endpoint = lanyard.data
        // Part of the next request waits behind it, whose time has not begun.
        let (start, end) = ("GET /5 HTTP/1.1\r\nHo", "st: \(endpoint)\r\n\r\n")
        let faults = try await Self.meetTails(endpoint, behind: moves ? start : "") { client, size in
            var taken: [UInt8] = []
            for _ in 0..<12 {
                Thread.sleep(forTimeInterval: 0.25)
                if moves { taken += try client.receive(max: 1000) }
            }
            var left = size
            while left > 0 {
                let bytes = try client.receive(max: 1 << 18)
                guard !bytes.isEmpty else { return "\(size) bytes: cut" }
                taken += bytes
                guard let body = taken.firstRange(of: Array("\r\n\r\n".utf8))?.upperBound else { continue }
                left = size + body - taken.count
            }
            try client.send(((moves ? "" : start) + end).utf8)
            let reader = RawReader(client)
            guard try reader.readResponse().bodyCount == 5 else { return "\(size) bytes: no next answer" }
            let begin = ContinuousClock.now
            guard try reader.readToAnyEnd() == ([], false) else { return "\(size) bytes: no orderly end" }
            return ContinuousClock.now - begin < .milliseconds(500) ? "\(size) bytes: ended early" : ""
        }
        #expect(faults.filter { !$0.isEmpty } == [])
        #expect(faults.count == Self.tails.count)
        try await lanyard.process.terminate()
    }

    @Test("8.2 An upstream that takes a little of an upload at a time is not cut; one that takes nothing is, with 504")
    func writingUp() async throws {
        let listener = try RawSocket.listen(at: .tcp(0), receiveBuffer: 8192)
        let lanyard = try await LanyardProcess.start(
            before: "http://127.0.0.1:\(listener.localPort)", route: "timeouts: {write: 1s}")
        let endpoint = lanyard.data
        let size = 48 << 20
        for isStanding in [false, true] {
            try {
                let client = try RawClient(endpoint)
                try client.send("PUT /large HTTP/1.1\r\nHost: \(endpoint)\r\nContent-Length: \(size)\r\n\r\n")
                Thread.detachNewThread {
                    let block = [UInt8](repeating: 0x75, count: 1 << 16)
                    for _ in 0..<(size >> 16) where (try? client.socket.send(block)) == nil {
                        return
                    }
                }
                guard let upstream = listener.accept() else { throw TestFailure("no connection comes") }
                if isStanding {
                    #expect(try client.response().status == 504)
                    return upstream.close()
                }
                var head: [UInt8] = []
                while head.firstRange(of: Array("\r\n\r\n".utf8)) == nil { head += try upstream.receive(max: 512) }
                var count = head.count - head.firstRange(of: Array("\r\n\r\n".utf8))!.upperBound
                var turn = 0
                while count < size {
                    count += try upstream.receive(max: turn < 12 ? 8192 : 1 << 18).count
                    if turn < 12 { Thread.sleep(forTimeInterval: 0.5) }
                    turn += 1
                }
                #expect(count == size)
                try upstream.send(Array("HTTP/1.1 201 Created\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".utf8))
                #expect(try client.response().status == 201)
            }()
        }
        try await lanyard.process.terminate()
    }
}
