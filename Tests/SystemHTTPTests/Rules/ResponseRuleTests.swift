import TestSupport
import Testing

@testable import SystemTestSupport

/// http-forwarding.md 12: ordinary responses.
@Suite(.serialized) struct ResponseRuleTests {
    private static let shared = Task { try await HTTPBench.start() }
    private let bench: HTTPBench

    init() async throws {
        bench = try await Self.shared.value
        try await bench.startOver()
    }

    private static let date = "Date: Thu, 01 Jan 1970 00:00:00 GMT\r\n"

    /// Sends a request to an upstream that answers so, and returns head and body in raw bytes; the connection must continue behind them.
    private func relay(_ response: String, _ method: String = "GET", length: Int = 0, closes: Bool = false)
        async throws -> (head: String, body: String)
    {
        try await bench.startOver()
        bench.script { request in
            guard request.message.target == "/x" else { return .response(body: "next") }
            let scripted = RawResponse([.send(Wire.bytes(response))])
            return closes ? scripted.closing : scripted
        }
        let client = try await bench.connect()
        try await client.send("\(method) /x HTTP/1.1\r\nHost: localhost\r\n\r\n")
        let head = try await client.head()
        let body = try await client.read(length)
        #expect(try await client.ask(HTTPBench.plain("/next")).bodyText == "next", Comment(rawValue: response))
        client.close()
        return (head, body)
    }

    // MARK: 12.1

    @Test("12.1 A response to HEAD has no body, whatever its fields say, and keeps Content-Length")
    func head() async throws {
        for (fields, expected) in [
            ("Content-Length: 5\r\n", "Content-Length: 5\r\n"), ("Content-Length: 0\r\n", "Content-Length: 0\r\n"),
            ("Transfer-Encoding: chunked\r\n", ""), ("", ""),
            ("Content-Length: 9223372036854775807\r\n", "Content-Length: 9223372036854775807\r\n"),
        ] {
            let got = try await relay("HTTP/1.1 200 OK\r\n\(Self.date)\(fields)\r\n", "HEAD")
            #expect(got.head == "HTTP/1.1 200 OK\r\n\(Self.date)\(expected)\r\n")
        }
        // The upstream's connection is as good as any: the next request was sent on it.
        #expect(bench.received.count == 1)
    }

    @Test("12.1 304 has no body and keeps Content-Length")
    func notModified() async throws {
        for (fields, expected) in [
            ("Content-Length: 5\r\n", "Content-Length: 5\r\n"), ("Transfer-Encoding: chunked\r\n", ""), ("", ""),
        ] {
            let got = try await relay("HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\n\(Self.date)\(fields)\r\n")
            #expect(got.head == "HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\n\(Self.date)\(expected)\r\n")
            #expect(bench.received.count == 1)
        }
    }

    @Test("12.1 204 has no body, no length and no coding; one that announces a body costs the upstream its connection")
    func noContent() async throws {
        for (fields, keeps) in [
            ("", true), ("Content-Length: 0\r\n", true), ("Content-Length: 5\r\n", false),
            ("Transfer-Encoding: chunked\r\n", false),
        ] {
            for method in ["GET", "HEAD", "DELETE"] {
                let got = try await relay("HTTP/1.1 204 No Content\r\n\(Self.date)A: 1\r\n\(fields)\r\n", method)
                #expect(got.head == "HTTP/1.1 204 No Content\r\n\(Self.date)A: 1\r\n\r\n")
                #expect(bench.received.count == (keeps ? 1 : 2), "\(fields) \(method)")
            }
        }
    }

    @Test("12.1 The faults of length and coding hold for HEAD, 204 and 304, too")
    func faultsWithoutBody() async throws {
        for fields in [
            "Content-Length: x", "Content-Length: 5\r\nContent-Length: 5", "Content-Length: 5, 5", "Content-Length:",
            "Content-Length: 5\r\nTransfer-Encoding: chunked", "Transfer-Encoding: gzip",
            "Transfer-Encoding: gzip, chunked", "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        ] {
            let head = "HEAD /drop HTTP/1.1\r\nHost: localhost\r\n\r\n"
            try await bench.drops("HTTP/1.1 200 OK\r\n\(fields)\r\n\r\n", request: head, to: "HEAD")
            try await bench.drops("HTTP/1.1 204 No Content\r\n\(fields)\r\n\r\n")
            try await bench.drops("HTTP/1.1 304 Not Modified\r\n\(fields)\r\n\r\n")
        }
    }

    // MARK: 12.2

    @Test(
        "12.2 Any status from 200 to 999 is relayed with its phrase and body; an empty or missing phrase has its space")
    func statuses() async throws {
        let statuses = [
            200, 201, 202, 203, 205, 206, 207, 226, 299, 300, 301, 302, 303, 305, 306, 307, 308, 399, 400, 403, 404,
            407,
            416, 418, 421, 426, 429, 431, 451, 499, 500, 501, 502, 503, 504, 505, 511, 599, 600, 601, 799, 999,
        ]
        for status in statuses {
            let got = try await relay(
                "HTTP/1.1 \(status) Some (odd) phrase\r\n\(Self.date)Content-Length: 3\r\n\r\nabc", length: 3)
            #expect(got.head == "HTTP/1.1 \(status) Some (odd) phrase\r\n\(Self.date)Content-Length: 3\r\n\r\n")
            #expect(got.body == "abc")
        }
        for (phrase, expected) in [
            ("", " "), (" ", " "), (" OK", " OK"), ("  OK ", "  OK "), (" \u{e9}\u{80}", " \u{e9}\u{80}"),
            (" a\tb", " a\tb"), (" 200", " 200"),
        ] {
            let got = try await relay("HTTP/1.1 200\(phrase)\r\n\(Self.date)Content-Length: 0\r\n\r\n")
            #expect(got.head == "HTTP/1.1 200\(expected)\r\n\(Self.date)Content-Length: 0\r\n\r\n")
        }
    }

    @Test("12.2 Other minor versions are treated as 1.1, and HTTP/1.1 is written")
    func versions() async throws {
        for minor in [1, 2, 9] {
            let got = try await relay("HTTP/1.\(minor) 200 OK\r\n\(Self.date)Content-Length: 0\r\n\r\n")
            #expect(got.head == "HTTP/1.1 200 OK\r\n\(Self.date)Content-Length: 0\r\n\r\n")
            #expect(bench.received.count == 1)
        }
        let got = try await relay("HTTP/1.0 200 OK\r\n\(Self.date)Content-Length: 2\r\n\r\nok", length: 2)
        #expect(got.head == "HTTP/1.1 200 OK\r\n\(Self.date)Content-Length: 2\r\n\r\n")
        #expect(bench.received.count == 2)
    }

    // MARK: 12.3, 12.4

    @Test("12.3 A known length is kept and chunked stays chunked, without extensions and trailers")
    func framing() async throws {
        let length = try await relay(
            "HTTP/1.1 200 OK\r\n\(Self.date)content-length: 007\r\nA: 1\r\n\r\nabcdefg", length: 7)
        #expect(length.head == "HTTP/1.1 200 OK\r\n\(Self.date)A: 1\r\nContent-Length: 7\r\n\r\n")
        #expect(length.body == "abcdefg")
        let chunks = try await relay(
            "HTTP/1.1 200 OK\r\n\(Self.date)transfer-encoding: CHUNKED\r\nTrailer: T\r\n\r\n"
                + "3;a=\"b\"\r\nabc\r\n0004 ;x\r\ndefg\r\n0;y\r\nT: 1\r\n\r\n", length: 17)
        #expect(chunks.head == "HTTP/1.1 200 OK\r\n\(Self.date)Transfer-Encoding: chunked\r\n\r\n")
        #expect(chunks.body == "7\r\nabcdefg\r\n0\r\n\r\n")
        let empty = try await relay(
            "HTTP/1.1 200 OK\r\n\(Self.date)Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", length: 5)
        #expect(empty.body == "0\r\n\r\n")
    }

    @Test(
        "12.3 A body that lasts until the end becomes chunked for HTTP/1.1 and keeps the connection, not for HTTP/1.0")
    func untilClose() async throws {
        for version in ["1.1", "1.0"] {
            let got = try await relay("HTTP/\(version) 200 OK\r\n\(Self.date)\r\nhello", length: 15, closes: true)
            #expect(got.head == "HTTP/1.1 200 OK\r\n\(Self.date)Transfer-Encoding: chunked\r\n\r\n")
            #expect(got.body == "5\r\nhello\r\n0\r\n\r\n")
        }
        let empty = try await relay("HTTP/1.1 200 OK\r\n\(Self.date)\r\n", length: 5, closes: true)
        #expect(empty.body == "0\r\n\r\n")
        bench.script { _ in RawResponse.text("HTTP/1.1 200 OK\r\n\(Self.date)\r\nhello").closing }
        let old = try await bench.connect()
        try await old.send("GET /x HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
        #expect(try await old.head() == "HTTP/1.1 200 OK\r\n\(Self.date)Connection: close\r\n\r\n")
        #expect(try await old.rest() == ("hello", false))
    }

    @Test("12.4 A body that lasts until the end is whole on FIN; a reset is a truncation")
    func reset() async throws {
        for version in ["1.1", "1.0"] {
            let request = "GET /hand HTTP/\(version)\r\nHost: localhost\r\n\r\n"
            for isReset in [false, true] {
                let client = try await bench.connect()
                try await client.send(request)
                let peer = try await bench.accept()
                _ = try await peer.head()
                try await peer.send("HTTP/1.1 200 OK\r\n\r\nhello")
                _ = try await client.head()
                let body = version == "1.1" ? "5\r\nhello\r\n" : "hello"
                #expect(try await client.read(body.utf8.count) == body)
                if isReset {
                    peer.reset()
                    #expect(try await client.rest() == ("", version == "1.0"), "a reset, HTTP/\(version)")
                } else {
                    peer.close()
                    let end = version == "1.1" ? "0\r\n\r\n" : ""
                    if version == "1.1" {
                        #expect(try await client.read(5) == end)
                    } else {
                        #expect(try await client.rest() == ("", false))
                    }
                }
            }
        }
    }

    // MARK: 12.5

    @Test("12.5 A missing Date is added, a present one kept")
    func date() async throws {
        let added = try await relay("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nA: 1\r\n\r\n").head
        #expect(added.contains(#/\r\nDate: [A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} 20\d\d \d\d:\d\d:\d\d GMT\r\n/#))
        #expect(
            added.replacing(#/Date: .*GMT\r\n/#, with: "") == "HTTP/1.1 200 OK\r\nA: 1\r\nContent-Length: 0\r\n\r\n")
        for kept in ["date: yesterday", "Date:", "DATE: Thu, 01 Jan 1970 00:00:00 GMT"] {
            let head = try await relay("HTTP/1.1 200 OK\r\n\(kept)\r\nContent-Length: 0\r\n\r\n").head
            let line = kept == "Date:" ? "Date: " : kept
            #expect(head == "HTTP/1.1 200 OK\r\n\(line)\r\nContent-Length: 0\r\n\r\n")
        }
        // One that the upstream's Connection takes away is a missing one.
        let nominated = try await relay(
            "HTTP/1.1 200 OK\r\nConnection: date\r\nDate: yesterday\r\nContent-Length: 0\r\n\r\n"
        ).head
        #expect(!nominated.contains("yesterday"))
        #expect(nominated.contains("\r\nDate: "))
    }

    @Test("12.5 Upgrade is relayed with 426 and dropped from other responses; no Via is added to responses")
    func upgradeAndVia() async throws {
        for status in [200, 400, 426, 503] {
            let got = try await relay(
                "HTTP/1.1 \(status) X\r\n\(Self.date)Upgrade: h2c, x\r\nConnection: upgrade\r\nContent-Length: 0\r\n\r\n"
            )
            // A server that sends Upgrade says so in Connection.
            let (line, connection) = status == 426 ? ("Upgrade: h2c, x\r\n", "Connection: Upgrade\r\n") : ("", "")
            #expect(
                got.head == "HTTP/1.1 \(status) X\r\n\(Self.date)\(line)Content-Length: 0\r\n\(connection)\r\n")
        }
        let via = try await relay("HTTP/1.1 200 OK\r\n\(Self.date)Via: 1.1 other\r\nContent-Length: 0\r\n\r\n").head
        #expect(via == "HTTP/1.1 200 OK\r\n\(Self.date)Via: 1.1 other\r\nContent-Length: 0\r\n\r\n")
    }
}
