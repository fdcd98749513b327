import Foundation
import LanyardFoundations
import LanyardSettings
import TestSupport
import Testing

@testable import LanyardClient

/// The client of the commands: what it sends, what it accepts, and how long it waits.
@Suite struct HTTPClientTests {
    private static let limits = HTTPClient.Limits(
        connectTimeout: .seconds(2), responseTimeout: .seconds(5), bodyBytesMax: 1000)

    private static func client(_ server: RawServer, _ limits: HTTPClient.Limits = limits) -> HTTPClient {
        let address: ListenerSettings.Address =
            switch server.endpoint {
            case .unix(let path): .unix(path: path)
            default: .tcp(host: "127.0.0.1", port: server.endpoint.port)
            }
        return HTTPClient(address, limits: limits)
    }

    @Test("what is sent: Host, token, length and body")
    func sent() throws {
        let folder = try TemporaryFolder()
        let server = try RawServer(at: .unix(folder.file("s"))) { _ in .response(201, "Created", body: "{}") }
        let response = try Self.client(server).perform(
            HTTPClient.Request("POST", "/v1/users", token: secret("abc"), body: secret("{\"a\":1}")))
        #expect(response.status == 201 && text(response.body) == "{}")
        #expect(
            String(decoding: server.records[0].bytes, as: UTF8.self)
                == "POST /v1/users HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer abc\r\n"
                + "Content-Type: application/json\r\nContent-Length: 7\r\n\r\n{\"a\":1}")
        _ = try Self.client(server).perform(HTTPClient.Request("POST", "/x"))
        #expect(server.requests[1].headText.hasSuffix("\r\nContent-Length: 0\r\n\r\n"))
    }

    @Test("a response in single bytes, without a length, or without a body")
    func received() throws {
        let whole =
            "HTTP/1.1 503 X\r\ncontent-type: application/Problem+json; charset=utf-8\r\nRetry-After: 7\r\nContent-Length: 3\r\n\r\nabc"
        let server = try RawServer { request in
            switch request.message.target {
            case "/slow": RawResponse(Array(whole.utf8).map { .send([$0]) })
            case "/open": RawResponse.text("HTTP/1.0 200 OK\r\n\r\nto the end").closing
            default: .text("HTTP/1.1 204 No Content\r\n\r\n")
            }
        }
        let slow = try Self.client(server).perform(HTTPClient.Request("GET", "/slow"))
        #expect(slow.status == 503 && slow.contentType == "application/problem+json" && slow.retryAfter == 7)
        #expect(text(slow.body) == "abc")
        let open = try Self.client(server).perform(HTTPClient.Request("GET", "/open"))
        #expect(text(open.body) == "to the end")
        let empty = try Self.client(server).perform(HTTPClient.Request("GET", "/none"))
        #expect(empty.status == 204 && empty.body.count == 0 && empty.contentType.isEmpty)
    }

    @Test(
        "what is no response has its own error",
        arguments: [
            (.close, .closed), (.text("HTTP/1.1 200 OK\r\nContent-Len").closing, .incomplete),
            (.text("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc").closing, .incomplete),
            (.text("SSH-2.0-x\r\n").closing, .notHTTP), (.text("HTTP/1.1 99 X\r\n\r\n"), .notHTTP),
            (.text("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), .notHTTP),
            (.text("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"), .notHTTP),
            (.text("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n"), .notHTTP),
            (.text("HTTP/1.1 200 OK\r\nContent-Length: 1001\r\n\r\n"), .tooLarge(1000)),
            (.text("HTTP/1.1 200 OK\r\n\r\n" + String(repeating: "x", count: 1001)), .tooLarge(1000)),
            (RawResponse([]), .timedOut),
        ] as [(RawResponse, HTTPClientError)])
    func unusable(_ response: RawResponse, _ expected: HTTPClientError) throws {
        var limits = Self.limits
        if expected == .timedOut { limits.responseTimeout = .milliseconds(200) }
        let server = try RawServer { _ in response }
        let client = Self.client(server, limits)
        #expect(throws: expected) { () throws in try client.perform(HTTPClient.Request("GET", "/")) }
        #expect(expected.mayHaveArrived)
    }

    @Test("no listener, no path and no port")
    func unconnected() throws {
        let folder = try TemporaryFolder()
        func error(_ address: ListenerSettings.Address) -> HTTPClientError? {
            do throws(HTTPClientError) {
                _ = try HTTPClient(address, limits: Self.limits).perform(HTTPClient.Request("GET", "/"))
                return nil
            } catch {
                return error
            }
        }
        #expect(error(.unix(path: folder.file("none"))) == .notConnected(2))
        #expect(error(.unix(path: "/" + String(repeating: "x", count: 200))) == .notConnectable)
        #expect(error(.tcp(host: "127.0.0.1", port: 0)) == .notConnectable)
        #expect(error(.unix(path: folder.file("none")))?.mayHaveArrived == false)
    }

    @Test("a response that comes while the request is not read to its end is still read")
    func early() throws {
        let listener = try RawSocket.listen(at: .tcp(0))
        let client = HTTPClient(.tcp(host: "127.0.0.1", port: listener.localPort), limits: Self.limits)
        let body = secret(String(repeating: "x", count: 8 << 20))
        // A thread of its own: a task would wait for one of the pool, which tests of other suites may block.
        let result = Guarded<Result<Int, any Error>?>(nil)
        Thread.detachNewThread {
            let status = Result<Int, any Error> {
                try client.perform(HTTPClient.Request("POST", "/", body: body)).status
            }
            result.withLock { $0 = status }
        }
        let socket = try #require(listener.accept())
        try socket.send(Array("HTTP/1.1 413 X\r\nContent-Length: 0\r\n\r\n".utf8))
        socket.halfClose()
        while try !socket.receive().isEmpty {}
        try blockUntil("the call ends") { result.withLock { $0 != nil } }
        #expect(try result.withLock { try $0?.get() } == 413)
    }
}

private func secret(_ text: String) -> Secret {
    var buffer = SecretBuffer()
    buffer.append(text)
    return buffer.seal()
}

private func text(_ secret: Secret) -> String {
    secret.withBytes { String(decoding: $0, as: UTF8.self) }
}
