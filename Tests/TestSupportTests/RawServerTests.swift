import Foundation
import LanyardFoundations
import TestSupport
import Testing

@Suite struct RawServerTests {
    @Test("raw bytes are recorded as they came: two fields of one name stay two, chunks keep their sizes")
    func raw() async throws {
        let server = try RawServer()
        let request =
            "POST /a HTTP/1.1\r\nX: 1\r\nx: 2\r\nTransfer-Encoding: chunked\r\n\r\n3;e=1\r\nabc\r\n0\r\nT: t\r\n\r\n"
        let client = try RawClient(server.endpoint)
        try client.send(request)
        let response = try client.response()
        #expect(response.bodyText == "ok")
        #expect(server.records.map(\.bytes) == [Array(request.utf8)])
        #expect(server.requests[0].values("x") == ["1", "2"])
        #expect(server.requests[0].bodyText == "abc")
        #expect(server.requests[0].framedBody == Array("3;e=1\r\nabc\r\n0\r\nT: t\r\n\r\n".utf8))
    }

    @Test("the script sees connection and index, and may close, reset or tear")
    func script() async throws {
        let server = try RawServer { request in
            switch request.index {
            case 0: .response(body: "\(request.connection)")
            case 1: .large(100_000).torn(after: 70_000)
            default: .reset
            }
        }
        do {
            let client = try RawClient(server.endpoint)
            #expect(try client.exchange("GET", "/").bodyText == "0")
            try client.send("GET / HTTP/1.1\r\n\r\n")
            #expect(try client.readToEnd().count == 70_000)
        }
        try await eventually("the record ends") { server.openCount == 0 }
    }

    @Test("a request is said to have arrived when the kernel had it, however late the server's thread comes for it")
    func arrival() async throws {
        let (entered, released) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        let arrival = Guarded<Double?>(nil)
        let server = try RawServer { request in
            arrival.withLock { $0 = request.arrivedAt }
            if request.message.target == "/wait" {
                entered.signal()
                released.wait()
            }
            return .response()
        }
        try {
            let client = try RawClient(server.endpoint)
            // The kernel begins to stamp a moment after it was first asked to.
            try blockUntil("arrivals are stamped") {
                _ = try client.exchange("GET", "/")
                return arrival.withLock { $0 } != nil
            }
            try client.send("GET /wait HTTP/1.1\r\n\r\n")
            entered.wait()
            let before = Date().timeIntervalSince1970
            try client.send("GET / HTTP/1.1\r\n\r\n")
            let after = Date().timeIntervalSince1970
            released.signal()
            for _ in 0..<2 { #expect(try client.response().bodyText == "ok") }
            #expect((before...after).contains(try #require(arrival.withLock { $0 })))
        }()
    }

    @Test("a large response streams with the right length, over TCP and over a unix socket")
    func large() async throws {
        let folder = try TemporaryFolder()
        for endpoint in [RawEndpoint.tcp(0), .unix(folder.file("up.sock"))] {
            let server = try RawServer(at: endpoint) { _ in .large(3_000_001) }
            let response = try await RawClient.ask(server.endpoint, "GET", "/")
            #expect(response.bodyCount == 3_000_001)
            #expect(response.bodyDigest == SHA256Digest.hex(of: [UInt8](repeating: 0x61, count: 3_000_001)))
        }
    }
}
