import Glibc
import TestSupport
import Testing

@testable import SystemTestSupport

/// The built binary with a proxy between it and its upstreams (http-connections.md 16).
@Suite(.enabled(if: PythonProcess.isInstalled, "needs Python"))
struct UpstreamProxyTests {
    /// Opens each tunnel that is asked for with this credential, and responds to other requests itself.
    private static func proxy(asking credential: String? = nil) throws -> RawServer {
        try RawServer { request in
            guard credential == nil || request.message["Proxy-Authorization"] == credential else {
                return .response(407, "Login", fields: [("Proxy-Authenticate", "Basic realm=\"x\"")])
            }
            guard request.message.method == "CONNECT" else { return .response(body: "forwarded") }
            let port = request.message.target.split(separator: ":").last.flatMap { UInt16($0) } ?? 0
            return .tunnel(to: .tcp(port))
        }
    }

    private static func key(_ proxy: RawEndpoint, _ credentials: String? = nil) -> String {
        "proxy: {url: \"http://\(proxy)\"\(credentials.map { ", credentials_file: \($0)" } ?? "")}"
    }

    @Test("an https upstream is verified through the tunnel, by its own name")
    func tunnel() async throws {
        let (upstream, proxy) = (try await TLSUpstream.start(), try Self.proxy())
        let lanyard = try await LanyardProcess.start(
            before: upstream.url, route: "\(upstream.trust), \(Self.key(proxy.endpoint))")
        let reply = try await lanyard.get("/")
        #expect(reply.bodyText.hasPrefix("TLSv1.3 ") && reply.bodyText.hasSuffix("http/1.1 Bearer stream-token"))
        #expect(try await lanyard.get("/name").bodyText == "localhost localhost:\(upstream.port)")
        #expect(proxy.requests.allSatisfy { $0.startLine == "CONNECT localhost:\(upstream.port) HTTP/1.1" })
        #expect(!proxy.requests.isEmpty)
    }

    @Test("an http upstream gets its requests from the proxy, in absolute form")
    func absolute() async throws {
        let proxy = try Self.proxy()
        let lanyard = try await LanyardProcess.start(
            before: "http://api.invalid:8080/v1", route: "unsafe_plain: true, \(Self.key(proxy.endpoint))")
        #expect(try await lanyard.get("/a?b").bodyText == "forwarded")
        #expect(proxy.requests.map(\.startLine) == ["GET http://api.invalid:8080/v1/a?b HTTP/1.1"])
        #expect(proxy.requests[0]["Host"] == "api.invalid:8080")
    }

    @Test("environment: the variables decide, and stay in the environment")
    func environment() async throws {
        let (upstream, proxy) = (try await TLSUpstream.start(), try Self.proxy())
        let variables = ["https_proxy=http://\(proxy.endpoint)", "no_proxy=other.test"]
        for (more, count) in [([], 1), (["NO_PROXY=localhost", "no_proxy="], 0)] {
            let before = proxy.connectionCount
            let lanyard = try await LanyardProcess.start(
                before: upstream.url, route: "\(upstream.trust), proxy: environment",
                launcher: ["/usr/bin/env"] + variables + more)
            #expect(try await lanyard.get("/").status == 200)
            #expect(proxy.connectionCount - before == count)
            #expect(!lanyard.process.lines.contains { $0.event == "start.environment_cleared" })
        }
    }

    @Test("a login that the proxy asks for is the operator's, and a changed file of credentials is used by itself")
    func credentials() async throws {
        let (upstream, clock) = (try await TLSUpstream.start(), try TestClock())
        let proxy = try Self.proxy(asking: "Basic dXNlcjpuZXctcGFzc3dvcmQ=")
        let folder = try TemporaryFolder()
        let file = try folder.write("credentials", "user:old-password\n")
        let lanyard = try await LanyardProcess.start(
            before: upstream.url, route: "\(upstream.trust), \(Self.key(proxy.endpoint, file))", under: clock)
        let refused = try await lanyard.get("/")
        #expect(refused.status == 502 && refused.bodyText.contains("refuses the user and the password"))
        #expect(refused["Proxy-Status"] == "lanyard; error=proxy_configuration_error; received-status=407")
        #expect(try refused.json["action"].string == "operator")
        try folder.write("credentials", "user:new-password\n")
        try await clock.pass(LanyardProcess.fileDelay)
        #expect(try await lanyard.get("/").status == 200)
        try folder.write("credentials", "no-colon-here")
        try await clock.pass(LanyardProcess.fileDelay)
        try await lanyard.process.event("upstream.proxy_credential.failed") {
            $0["reason"].string?.contains("does not hold user:password") == true
        }
        for secret in ["old-password", "new-password", "no-colon-here", "dXNlcjpuZXctcGFzc3dvcmQ="] {
            #expect(!lanyard.process.log.contains(secret))
        }
    }

    @Test("the log of a refused request has the proxy's address and its status")
    func log() async throws {
        let upstream = try await TLSUpstream.start()
        let proxy = try RawServer { _ in .response(403, "Forbidden") }
        let lanyard = try await LanyardProcess.start(
            before: upstream.url, route: "\(upstream.trust), \(Self.key(proxy.endpoint))")
        let refused = try await lanyard.get("/")
        #expect(refused.status == 502 && refused.bodyText.contains("with the status 403"))
        #expect(!refused.bodyText.contains("\(proxy.endpoint)"))
        try await eventually("the log says so") {
            lanyard.process.log.contains("with the status 403. The address is \(proxy.endpoint)")
        }
        #expect(upstream.requests.isEmpty)
    }

    @Test("a proxy that hangs behind its 200 costs timeouts.connect, and one that is gone is told at once")
    func hangs() async throws {
        let (upstream, clock) = (try await TLSUpstream.start(), try TestClock())
        let proxy = try RawServer { _ in .text("HTTP/1.1 200 OK\r\n\r\n") }
        let lanyard = try await LanyardProcess.start(
            before: upstream.url, route: "\(upstream.trust), timeouts: {connect: 3s}, \(Self.key(proxy.endpoint))",
            under: clock)
        async let reply = lanyard.get("/")
        try await eventually("the proxy has the ClientHello") { (proxy.records.first?.bytes.count ?? 0) > 200 }
        try await clock.pass(.seconds(4))
        let late = try await reply
        #expect(late.status == 504 && late["Proxy-Status"] == "lanyard; error=connection_timeout", "\(late.bodyText)")
        proxy.stop()
        let gone = try await lanyard.get("/")
        #expect(
            gone.status == 502 && gone.bodyText.contains("Connecting to the route's proxy failed"), "\(gone.bodyText)")
    }

    @Test("check --online goes the same way")
    func onlineCheck() async throws {
        let (upstream, proxy) = (try await TLSUpstream.start(), try Self.proxy(asking: "Basic dTpw"))
        let folder = try TemporaryFolder()
        try folder.write("token", "never-sent-token")
        func check(_ credentials: String) async throws -> CommandRun {
            let file = try folder.write("credentials", credentials)
            let path = try folder.write(
                "lanyard.yaml",
                """
                identities: {fixed: {static: {token_file: token}}}
                users: {alice: {identity: fixed}}
                routes:
                  - {name: tls, upstream: "\(upstream.url)", \(upstream.trust), \(Self.key(proxy.endpoint, file))}
                  - {name: plain, match: {path: /x}, upstream: "http://api.invalid", unsafe_plain: true, \(Self.key(proxy.endpoint))}

                """)
            return try await CommandRun(["check", "--online", "--config", path])
        }
        let sound = try await check("u:p")
        #expect(sound.exit == .code(0), "\(sound.output)\n\(sound.errors)")
        let through = "through http://\(proxy.endpoint) \(proxy.endpoint)"
        #expect(sound.output.contains("ok upstream tls \(upstream.url) \(through) TLSv1.3, HTTP/1.1"))
        #expect(
            sound.output.contains("ok upstream plain http://api.invalid \(through), and the upstream was not asked"))
        let refused = try await check("u:wrong")
        #expect(refused.exit != .code(0) && refused.output.contains("with the status 407"), "\(refused.output)")
        let unfit = try await check("wrong")
        #expect(unfit.errors.contains { $0.contains("does not hold user:password") }, "\(unfit.errors)")
    }
}
