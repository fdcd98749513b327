import LanyardFoundations
import LanyardSettings
import TestSupport
import Testing

@testable import LanyardRequestPath

/// Upstreams that are reached through a proxy (http-connections.md 16).
@Suite struct OutboundProxyTests {
    private static let credential = "Basic dXNlcjpwYXNz"

    /// A bench whose route has this proxy before `http://api.test`, which nobody could resolve here.
    private static func plainBench(
        before proxy: RawServer, credential: String? = nil,
        _ configure: @escaping (inout ProxyBench.Plan) -> Void = { _ in }
    ) throws -> ProxyBench {
        try ProxyBench(plan: {
            $0.usesUpstream = false
            $0.upstream = UpstreamSettings(
                endpoint: .tcp(host: "api.test", port: 8080, tls: false), authority: "api.test:8080")
            Self.set(proxy.endpoint, credential, &$0)
            configure(&$0)
        })
    }

    /// The same before a server with TLS at a loopback address.
    private static func tunnelBench(
        before proxy: RawEndpoint, credential: String? = nil,
        _ configure: @escaping (inout ProxyBench.Plan) -> Void = { _ in }
    ) throws -> ProxyBench {
        try ProxyBench(plan: {
            $0.hasTLS = true
            Self.set(proxy, credential, &$0)
            configure(&$0)
        })
    }

    private static func set(_ proxy: RawEndpoint, _ credential: String?, _ plan: inout ProxyBench.Plan) {
        plan.upstream.proxy = UpstreamSettings.Proxy(
            host: "127.0.0.1", port: proxy.port, credentialsFile: credential == nil ? nil : "file")
        plan.proxyAuthorizations = credential.map { ["file": Tokens.secret($0)] } ?? [:]
    }

    /// A proxy that opens each tunnel.
    private static func openingProxy() throws -> RawServer {
        try RawServer { request in
            guard let port = request.message.target.split(separator: ":").last.flatMap({ UInt16($0) }) else {
                return .response(400, "Bad Request")
            }
            return .tunnel(to: .tcp(port))
        }
    }

    // MARK: http

    @Test("a request to an http upstream has an absolute target, the upstream's Host and the credential for the proxy")
    func absolute() async throws {
        let proxy = try RawServer()
        let bench = try Self.plainBench(before: proxy, credential: Self.credential)
        for target in ["/a//b?c=%20", "http://localhost/a//b?c=%20"] {
            let reply = try await bench.ask(
                "GET \(target) HTTP/1.1\r\nHost: localhost\r\nProxy-Authorization: Basic evil\r\nA: 1\r\n\r\n")
            #expect(reply.status == 200)
        }
        for request in proxy.requests {
            #expect(request.startLine == "GET http://api.test:8080/a//b?c=%20 HTTP/1.1")
            #expect(request.values("Host") == ["api.test:8080"] && request.values("A") == ["1"])
            #expect(request.values("Proxy-Authorization") == [Self.credential])
            #expect(request["Authorization"] == "Bearer \(ProxyBench.token)")
        }
        #expect(proxy.requests.count == 2 && proxy.connectionCount == 1, "the connection is kept")
    }

    @Test("a mapped prefix and an empty path have their absolute forms")
    func forms() async throws {
        let proxy = try RawServer()
        let bench = try Self.plainBench(before: proxy)
        _ = try await bench.ask("GET http://localhost HTTP/1.1\r\nHost: localhost\r\n\r\n")
        let mapped = try Self.plainBench(before: proxy) {
            ($0.route.path, $0.route.upstreamPath) = ("/api", "/v1")
        }
        _ = try await mapped.ask("GET /api/x?y HTTP/1.1\r\nHost: localhost\r\n\r\n")
        #expect(
            proxy.requests.map(\.startLine) == [
                "GET http://api.test:8080/ HTTP/1.1", "GET http://api.test:8080/v1/x?y HTTP/1.1",
            ])
        #expect(proxy.requests.allSatisfy { $0.values("Proxy-Authorization").isEmpty })
    }

    @Test("407 to a forwarded request is the operator's, not the client's; other statuses pass")
    func forwardedLogin() async throws {
        let proxy = try RawServer { request in
            request.message.target.hasSuffix("/ok")
                ? .response(403, "Forbidden", body: "no")
                : .response(407, "Login", fields: [("Proxy-Authenticate", "Basic realm=\"secret realm\"")])
        }
        let bench = try Self.plainBench(before: proxy)
        let refused = try await bench.ask("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        #expect(refused.status == 502 && !refused.headText.contains("Proxy-Authenticate"))
        #expect(try refused.json["type"].string == "urn:lanyard:problem:upstream-unreachable")
        #expect(try refused.json["action"].string == "operator")
        #expect(
            refused["Proxy-Status"] == "lanyard; error=proxy_configuration_error; received-status=407",
            "\(refused.headText)")
        #expect(refused.bodyText.contains("credentials_file") && !refused.bodyText.contains("realm"))
        let passed = try await bench.ask("GET /ok HTTP/1.1\r\nHost: localhost\r\n\r\n")
        #expect(passed.status == 403 && passed.bodyText == "no")
    }

    @Test("another credential is sent from the next request on, also on a kept connection")
    func renewed() async throws {
        let proxy = try RawServer()
        let bench = try Self.plainBench(before: proxy, credential: Self.credential)
        _ = try await bench.ask("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        bench.path.targets[0].replaceProxyAuthorization(Tokens.secret("Basic bmV3"))
        bench.settle()
        _ = try await bench.ask("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        #expect(proxy.requests.map { $0["Proxy-Authorization"] } == [Self.credential, "Basic bmV3"])
        #expect(proxy.connectionCount == 1)
    }

    @Test("without a credential that the route names, the proxy is not asked")
    func missingCredential() async throws {
        let proxy = try Self.openingProxy()
        for bench in [
            try Self.plainBench(before: proxy, credential: "") { $0.proxyAuthorizations = [:] },
            try Self.tunnelBench(before: proxy.endpoint, credential: "") { $0.proxyAuthorizations = [:] },
        ] {
            let reply = try await bench.ask("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            #expect(reply.status == 502 && reply.bodyText.contains("credentials_file"), "\(reply.bodyText)")
            #expect(try reply.json["action"].string == "operator")
        }
        #expect(proxy.connectionCount == 0)
    }

    // MARK: https

    @Test("an https upstream is reached by CONNECT, and its requests are in origin form within TLS")
    func tunnel() async throws {
        let proxy = try Self.openingProxy()
        let bench = try Self.tunnelBench(before: proxy.endpoint, credential: Self.credential)
        let authority = "127.0.0.1:\(bench.sides.upstream.port)"
        for _ in 0..<3 {
            let reply = try await bench.ask("GET /a HTTP/1.1\r\nHost: localhost\r\n\r\n")
            #expect(reply.status == 200, "\(reply.headText)")
        }
        #expect(bench.upstream.requests.map(\.startLine) == Array(repeating: "GET /a HTTP/1.1", count: 3))
        #expect(bench.upstream.requests.allSatisfy { $0.values("Proxy-Authorization").isEmpty })
        let head = try #require(proxy.records.first?.requests.first)
        #expect(
            head.headText
                == "CONNECT \(authority) HTTP/1.1\r\nHost: \(authority)\r\nProxy-Authorization: \(Self.credential)\r\n\r\n"
        )
        #expect(proxy.connectionCount == 1, "the connection is kept")
        // The token is in TLS alone.
        #expect(!String(decoding: proxy.records[0].bytes, as: UTF8.self).contains("Bearer"))
    }

    @Test("the response to CONNECT may come in two parts, cut at any byte")
    func parts() async throws {
        let response = Array("HTTP/1.1 200 OK\r\nA: b\r\n\r\n".utf8)
        for cut in 1..<response.count {
            let proxy = try RawServer { request in
                let port = UInt16(request.message.target.split(separator: ":").last ?? "") ?? 0
                return RawResponse([
                    .send(Array(response[..<cut])), .pause(.milliseconds(5)), .send(Array(response[cut...])),
                    .relay(.tcp(port)),
                ])
            }
            let bench = try Self.tunnelBench(before: proxy.endpoint)
            let reply = try await bench.ask("GET /a HTTP/1.1\r\nHost: localhost\r\n\r\n")
            #expect(reply.status == 200, "cut at \(cut): \(reply.bodyText)")
        }
    }

    /// A proxy that opens no tunnel, and what the client is told.
    struct Refusal: Sendable, CustomTestStringConvertible {
        let text: String
        var ends = false
        let status: Int
        let error: String
        let words: String
        let action: String
        var testDescription: String { String(text.prefix(30)) }
    }

    @Test(
        "a proxy that refuses, asks for a login or speaks no HTTP",
        arguments: [
            Refusal(
                text: "HTTP/1.1 403 Forbidden\r\n\r\n<html>", status: 502,
                error: "connection_refused; received-status=403",
                words: "with the status 403", action: "operator"),
            Refusal(
                text: "HTTP/1.1 502 Bad Gateway\r\n\r\n", status: 502,
                error: "destination_unavailable; received-status=502", words: "with the status 502", action: "nobody"),
            Refusal(
                text: "HTTP/1.1 504 Timeout\r\n\r\n", status: 504, error: "connection_timeout; received-status=504",
                words: "with the status 504", action: "nobody"),
            Refusal(
                text: "HTTP/1.1 407 Login\r\nProxy-Authenticate: Basic realm=\"x\"\r\n\r\n", status: 502,
                error: "proxy_configuration_error; received-status=407", words: "asks for a login", action: "operator"),
            Refusal(
                text: "SSH-2.0-OpenSSH\r\n", status: 502, error: "http_protocol_error", words: "that can be read",
                action: "operator"),
            Refusal(
                text: "", ends: true, status: 502, error: "connection_terminated", words: "closed the connection",
                action: "nobody"),
            Refusal(
                text: "HTTP/1.1 200 OK\r\nA:", ends: true, status: 502, error: "connection_terminated",
                words: "closed the connection", action: "nobody"),
        ])
    func refused(_ refusal: Refusal) async throws {
        let proxy = try RawServer { _ in
            RawResponse([.send(Array(refusal.text.utf8))] + (refusal.ends ? [.close] : []))
        }
        let bench = try Self.tunnelBench(before: proxy.endpoint)
        let reply = try await bench.ask("GET /a HTTP/1.1\r\nHost: localhost\r\n\r\n")
        #expect(reply.status == refusal.status)
        #expect(reply["Proxy-Status"] == "lanyard; error=\(refusal.error)", "\(reply.headText)")
        #expect(reply.bodyText.contains(refusal.words), "\(reply.bodyText)")
        #expect(try reply.json["action"].string == refusal.action)
        #expect(bench.upstream.connectionCount == 0)
    }

    @Test("a proxy that says nothing, or nothing behind its 200, costs the time of one connection")
    func silent() async throws {
        for text in ["", "HTTP/1.1 200 OK\r\n\r\n"] {
            let proxy = try RawServer { _ in RawResponse([.send(Array(text.utf8))]) }
            let bench = try Self.tunnelBench(before: proxy.endpoint) {
                $0.upstream.timeouts.connect = .milliseconds(300)
            }
            let reply = try await bench.ask("GET /a HTTP/1.1\r\nHost: localhost\r\n\r\n")
            #expect(reply.status == 504 && reply["Proxy-Status"] == "lanyard; error=connection_timeout")
            #expect(
                reply.bodyText.contains(text.isEmpty ? "no response to CONNECT" : "TLS handshake"), "\(reply.bodyText)")
        }
    }

    @Test("a proxy that is gone is told as the proxy, and the upstream is not dialled in its place")
    func gone() async throws {
        let refusing = try RawSocket.refusing()
        defer { refusing.close() }
        let bench = try Self.tunnelBench(before: .tcp(refusing.localPort))
        let reply = try await bench.ask("GET /a HTTP/1.1\r\nHost: localhost\r\n\r\n")
        #expect(reply.status == 502 && reply["Proxy-Status"] == "lanyard; error=connection_refused")
        #expect(reply.bodyText.contains("Connecting to the route's proxy failed"), "\(reply.bodyText)")
        #expect(bench.upstream.connectionCount == 0)
    }

    @Test("an upstream at an address of metadata services is refused although the proxy would dial it")
    func metadata() async throws {
        let proxy = try RawServer()
        let bench = try Self.plainBench(before: proxy) {
            $0.upstream.endpoint = .tcp(host: "169.254.169.254", port: 80, tls: false)
            $0.upstream.allowsPlain = true
        }
        let reply = try await bench.ask("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        #expect(reply.status == 502 && reply["Proxy-Status"] == "lanyard; error=destination_ip_prohibited")
        #expect(reply.bodyText.contains("The upstream's address") && proxy.connectionCount == 0)
    }
}
