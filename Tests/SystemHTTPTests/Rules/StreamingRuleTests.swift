import TestSupport
import Testing

@testable import SystemTestSupport

/// http-forwarding.md 14: streaming.
@Suite(.serialized) struct StreamingRuleTests {
    private static let shared = Task { try await HTTPBench.start() }
    private let bench: HTTPBench

    init() async throws {
        bench = try await Self.shared.value
        try await bench.startOver()
    }

    /// An exchange in progress on both sides, its request head read.
    private func exchange(_ request: String) async throws -> (client: Wire, peer: Wire) {
        let client = try await bench.connect()
        try await client.send(request)
        let peer = try await bench.accept()
        _ = try await peer.head()
        return (client, peer)
    }

    @Test(
        "14.1 A head is relayed before any body byte, and each read at once, for every content type",
        arguments: ["text/event-stream", "text/plain", "application/json", "video/mp4", "application/octet-stream", ""])
    func atOnce(_ type: String) async throws {
        let field = type.isEmpty ? "" : "Content-Type: \(type)\r\n"
        for framing in ["Transfer-Encoding: chunked\r\n", "Content-Length: 60\r\n", ""] {
            let (client, peer) = try await exchange(HTTPBench.plain("/hand"))
            try await peer.send("HTTP/1.1 200 OK\r\n\(field)\(framing)\r\n")
            #expect(try await client.head().hasPrefix("HTTP/1.1 200 OK\r\n\(field)"))
            let isChunked = framing.hasPrefix("T")
            for number in 0..<6 {
                let event = "event: \(number)\n"
                try await peer.send(isChunked ? "9\r\n\(event)\r\n" : event)
                // Nothing else comes: what is held back for more would stay away for ever.
                let expected = framing.hasPrefix("C") ? event : "9\r\n\(event)\r\n"
                #expect(try await client.read(expected.utf8.count) == expected)
            }
            client.close()
        }
    }

    @Test("14.1 The request goes upstream while its body still comes, each read at once")
    func upload() async throws {
        for framing in ["Transfer-Encoding: chunked", "Content-Length: 30"] {
            let (client, peer) = try await exchange("POST /hand HTTP/1.1\r\nHost: localhost\r\n\(framing)\r\n\r\n")
            let isChunked = framing.hasPrefix("T")
            for number in 0..<6 {
                let text = isChunked ? "5\r\n \(number)\(number) \n\r\n" : " \(number)\(number) \n"
                try await client.send(text)
                #expect(try await peer.read(text.utf8.count) == text)
            }
            if isChunked {
                try await client.send("0\r\n\r\n")
                #expect(try await peer.read(5) == "0\r\n\r\n")
            }
            try await peer.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            #expect(try await client.response().status == 200)
            client.close()
        }
    }

    @Test("14.1 Request and response stream at the same time")
    func bothWays() async throws {
        let (client, peer) = try await exchange(
            "POST /hand HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
        try await peer.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        _ = try await client.head()
        for number in 10..<30 {
            try await client.send("2\r\n\(number)\r\n")
            #expect(try await peer.read(7) == "2\r\n\(number)\r\n")
            try await peer.send("3\r\n\(number)!\r\n")
            #expect(try await client.read(8) == "3\r\n\(number)!\r\n")
        }
        try await client.send("0\r\n\r\n")
        #expect(try await peer.read(5) == "0\r\n\r\n")
        try await peer.send("0\r\n\r\n")
        #expect(try await client.rest() == ("0\r\n\r\n", false))
    }

    private static let large = 32 << 20
    /// A sanitizer keeps books of its own, and freed memory for a while.
    private static let growthMax = Sanitizer.isOn ? 256 << 20 : 8 << 20

    @Test("14.2 A reader that stands still stops the upstream, memory stays flat, and it gets everything after all")
    func slowReader() async throws {
        let size = Self.large
        // A small response first. To HEAD this upstream would send the body, too: the next request on that connection would get it.
        bench.script { $0.message.target == "/large" ? .large(size) : .response() }
        #expect(try await bench.ask(HTTPBench.plain("/")).status == 200)
        let before = bench.lanyard.process.residentBytes
        let client = try await bench.connect()
        try await client.send("GET /large HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        #expect(try await client.head().hasPrefix("HTTP/1.1 200 "))
        try await untilStill(client)
        // What the proxy holds is little; the rest waits in the kernel or with the upstream.
        #expect(bench.lanyard.process.residentBytes - before < Self.growthMax)
        let rest = try await client.rest()
        #expect(rest.text.utf8.count == size)
        #expect(!rest.wasReset)
        #expect(bench.lanyard.process.residentBytes - before < Self.growthMax)
    }

    /// Waits until the client's receive queue is full and no longer grows.
    private func untilStill(_ client: Wire) async throws {
        var last = -1
        try await eventually("the client's queue is full") {
            let now = try KernelSocket.find(local: client.localPort, remote: bench.lanyard.data.port)?.receiveQueue ?? 0
            defer { last = now }
            try await bench.lanyard.process.settle()
            return now > 0 && now == last
        }
    }

    @Test("14.2 An upstream that stands still stops the client, and gets everything after all")
    func slowUpstream() async throws {
        let size = Self.large
        let (client, peer) = try await exchange(
            "POST /hand HTTP/1.1\r\nHost: localhost\r\nContent-Length: \(size)\r\n\r\n")
        let before = bench.lanyard.process.residentBytes
        let sent = Tally()
        let upload = Task {
            let run = [UInt8](repeating: 0x62, count: 1 << 20)
            for _ in 0..<(size >> 20) {
                try await client.send(run)
                sent.add()
            }
        }
        var last = -1
        try await eventually("the client can send no more") {
            try await bench.lanyard.process.settle()
            defer { last = sent.value }
            return sent.value == last
        }
        #expect(sent.value < size >> 20)
        #expect(bench.lanyard.process.residentBytes - before < Self.growthMax)
        #expect(try await peer.read(size).utf8.count == size)
        try await upload.value
        try await peer.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        #expect(try await client.response().status == 200)
        #expect(bench.lanyard.process.residentBytes - before < Self.growthMax)
    }
}
