import Foundation
import Glibc
import TestSupport
import Testing

@testable import SystemTestSupport

/// What `lanyard status` and `GET /v1/status` say of the process beside its users.
@Suite struct StatusConditionTests {
    private static func status(_ admin: RawEndpoint) async throws -> (text: String, json: JSON) {
        let (text, json) = (
            try await CommandRun(["status", "--admin", "\(admin)"]),
            try await CommandRun(["status", "--json", "--admin", "\(admin)"])
        )
        #expect(text.exit == .code(0), "\(text.errors)")
        return (text.output, try json.json)
    }

    /// A program with an admin socket.
    private struct Bench {
        let lanyard: LanyardProcess
        let admin: RawEndpoint
        /// Has the socket.
        let folder: TemporaryFolder
    }

    private static func start(
        _ yaml: String, token: String? = "a-token", listener: String = "address: \"127.0.0.1:0\""
    ) async throws -> Bench {
        let sockets = try TemporaryFolder()
        let admin = RawEndpoint.unix(sockets.file("admin.sock"))
        let lanyard = try await LanyardProcess.start(
            yaml, token: token, listener: listener, admin: "{address: \"\(admin)\"}")
        return Bench(lanyard: lanyard, admin: admin, folder: sockets)
    }

    @Test("a drain under load: closed listeners, what is still served, how long it may last, and what to do")
    func stopping() async throws {
        let upstream = try RawServer { _ in .text("HTTP/1.1 200 OK\r\n\r\nendless") }
        let bench = try await Self.start(
            "routes: [{name: all, upstream: \"http://\(upstream.endpoint)\"}]\nshutdown: {drain_max: 1h}\n")
        try await bench.lanyard.untilReady()
        #expect(try await Self.status(bench.admin).json["stopping"] == .null)
        let clients = try (0..<3).map { _ in try RawClient(bench.lanyard.data) }
        for client in clients { try client.send("GET / HTTP/1.1\r\nHost: \(bench.lanyard.data)\r\n\r\n") }
        try await eventually("the requests are at the upstream") { upstream.requests.count == 3 }
        bench.lanyard.process.signal(SIGTERM)
        try await eventually("the listeners are closed") {
            try await Self.status(bench.admin).json["stopping"]["listeners_closed"].bool == true
        }
        let status = try await Self.status(bench.admin)
        #expect(status.json["stopping"]["client_connections"].int == 3)
        #expect((3000...3600).contains(status.json["stopping"]["seconds_left"].int ?? 0), "\(status.json)")
        #expect(
            status.text.contains("data \(bench.lanyard.data) (closed), health \(bench.lanyard.health), "),
            "\(status.text)")
        #expect(
            status.text.hasPrefix("NOT READY: stopping: 3 client connections with a request in flight, ")
                && status.text.prefix { $0 != "\n" }.contains(
                    " left; what to do: wait for its end, and start it again"),
            "\(status.text)")
        for client in clients { client.close() }
    }

    @Test("routes: what they have had lately, the latest failure of an upstream, and requests without a route")
    func routes() async throws {
        let upstream = try RawServer { request in
            .text("HTTP/1.1 \(request.message.target == "/bad" ? 500 : 200) OK\r\nContent-Length: 0\r\n\r\n")
        }
        let bench = try await Self.start(
            """
            routes:
              - {name: good, match: {path: /}, upstream: "http://\(upstream.endpoint)", deny: [{path: /private}]}
              - {name: dead, match: {path: /dead}, upstream: "http://127.0.0.1:9"}
              - {name: named, match: {hosts: [elsewhere]}, upstream: "http://127.0.0.1:9"}
            """)
        try await bench.lanyard.untilReady()
        for path in ["/", "/bad", "/private", "/dead"] {
            _ = try await RawClient.ask(bench.lanyard.data, "GET", path)
        }
        let status = try await Self.status(bench.admin).json
        let (good, dead) = (status["routes"][0], status["routes"][1])
        #expect(good["route"].string == "good" && good["upstream"].string == "http://\(upstream.endpoint)")
        #expect(good["user"] == .null || good["user"].string != nil)
        #expect(good["recent"]["requests"].int == 3 && good["recent"]["server_errors"].int == 1, "\(good)")
        #expect(good["recent"]["refused"].int == 1 && good["last_upstream_error"] == .null, "\(good)")
        #expect(good["last_response_at"].string?.hasPrefix("20") == true && good["breaker_open"].bool == false)
        #expect(dead["recent"]["requests"].int == 1 && dead["recent"]["server_errors"].int == 1, "\(dead)")
        #expect(dead["last_response_at"] == .null && dead["in_flight"].int == 0 && dead["waiting"].int == 0)
        let error = dead["last_upstream_error"]["error"].string
        #expect(error?.contains("Connection refused") == true && error?.contains("127.0.0.1:9") == true, "\(dead)")
        #expect(status["routes"].array.count == 3 && status["requests"]["without_route"]["recent"]["requests"].int == 0)
        #expect(status["requests"]["parked"].int == 0 && (status["requests"]["parked_max"].int ?? 0) > 0)
        #expect((status["descriptors"]["open"].int ?? 0) > 3 && status["descriptors"]["last_shortage_at"] == .null)
        #expect(status["readiness"]["status"].string == "ready" && status["clock"]["in_step"].bool == true)
    }

    @Test("HTTP/2: no line while it is not used; then a line for each side, with what is open and what was reset")
    func http2() async throws {
        let upstream = try HTTP2Upstream { $0.head.contains("/never") ? .none : .response(200) }
        let bench = try await Self.start(
            "shards: 1\nroutes: [{name: all, upstream: \"http://\(upstream.endpoint)\", protocol: http2}]\n",
            listener: "address: \"127.0.0.1:0\", allowed_hosts: [\"localhost:80\", \"localhost\"]")
        try await bench.lanyard.untilReady()
        let before = try await Self.status(bench.admin)
        #expect(!before.text.contains("HTTP/2") && before.json["http2"]["clients"]["streams"].int == 0)
        let client = try HTTP2Client(RawSocket.connect(to: bench.lanyard.data), keeping: [upstream, bench.lanyard])
        #expect(try client.response(client.request()).status == 200)
        let waiting = try client.request("GET", "/never")
        try await eventually("the request is at the upstream") { upstream.requests.count == 2 }
        let status = try await Self.status(bench.admin)
        for side in ["clients", "upstreams"] {
            #expect(status.json["http2"][side]["connections"].int == 1, "\(status.json["http2"])")
            let line = "\nHTTP/2 \(side): 1 connection, 1 open stream, 2 so far; resets: peer 0, refused 0\n"
            #expect(status.text.contains(line), "\(status.text)")
        }
        try client.cancel(waiting)
        try await eventually("the stream has ended on both sides") {
            let http2 = try await Self.status(bench.admin).json["http2"]
            return http2["clients"]["open_streams"].int == 0 && http2["upstreams"]["open_streams"].int == 0
        }
        let after = try await Self.status(bench.admin).json["http2"]
        #expect(after["clients"]["resets"]["peer"].int == 1 && after["clients"]["limits_passed"].object.isEmpty)
        #expect(after["upstreams"]["ends"].object.isEmpty && after["upstreams"]["downgraded"].array.isEmpty)
    }

    @Test("identity services: reachable or not, and which call has failed at which URL, since when")
    func identities() async throws {
        let emulator = try await EmulatorProcess.start(tokens: "1800s")
        let device = try await Device.make(emulator, users: [Device.alice])
        let running = try await device.start()
        try await running.untilReady()
        func identity() async throws -> JSON { try await Self.status(running.admin.endpoint).json["identities"][0] }
        let good = try await identity()
        #expect(good["identity"].string == "demo" && good["reachable"].bool == true && good["last_error"] == .null)
        #expect(good["last_success_at"].string?.hasPrefix("20") == true, "\(good)")
        emulator.process.signal(SIGKILL)
        _ = try await emulator.process.waitForExit()
        _ = try? await running.admin.call("POST", "/v1/users/alice/refresh")
        try await eventually("the service is found to be away") { try await identity()["reachable"].bool == false }
        let away = try await identity()
        #expect(away["last_error"]["error"].string?.contains("http://") == true, "\(away)")
        let user = try await Self.status(running.admin.endpoint).json["users"][0]
        #expect(user["failing_since"].string?.hasPrefix("20") == true, "\(user)")
    }

    @Test(
        "limits.connections_max that the machine lowers, with its numbers",
        .enabled("needs prlimit of util-linux") { access("/usr/bin/prlimit", X_OK) == 0 })
    func loweredLimit() async throws {
        let sockets = try TemporaryFolder()
        let admin = RawEndpoint.unix(sockets.file("admin.sock"))
        let lanyard = try await LanyardProcess.start(
            "routes: [{name: all, upstream: \"http://127.0.0.1:9\"}]\n", token: "a-token",
            admin: "{address: \"\(admin)\"}",
            launcher: ["/usr/bin/prlimit", "--nofile=300:300"])
        try await lanyard.untilReady()
        let status = try await Self.status(admin)
        #expect(
            status.json["lowered_limit"]["configured"].int == 4096
                && status.json["lowered_limit"]["effective"].int == 50)
        #expect(
            status.text.hasPrefix(
                "WARNING: limits.connections_max is 50 in place of 4096: each connection may need two of the 300 descriptors; "
                    + "what to do: raise ulimit -n"), "\(status.text)")
    }

    @Test(
        "a login that waits for its user, with its address and code; its requests without a token are no route's finding"
    )
    func login() async throws {
        let provider = try RawServer { request in
            let json = [("Content-Type", "application/json")]
            let issuer = "http://\(request.message["Host"] ?? "")"
            switch request.message.target {
            case "/device":
                return .response(
                    fields: json,
                    body: """
                        {"device_code":"hidden-device-code","user_code":"WDJB-MJHT","verification_uri":"\(issuer)/activate",\
                        "expires_in":900,"interval":5}
                        """)
            case "/token":
                return .response(400, "Bad Request", fields: json, body: #"{"error":"authorization_pending"}"#)
            default:
                return .response(
                    fields: json,
                    body: """
                        {"issuer":"\(issuer)","token_endpoint":"\(issuer)/token",\
                        "device_authorization_endpoint":"\(issuer)/device"}
                        """)
            }
        }
        let bench = try await Self.start(
            """
            identities: {corp: {oauth2: {issuer: "http://\(provider.endpoint)", client_id: c}}}
            users: {alice: {identity: corp, login: {device: {}}}}
            routes: [{name: orders, upstream: "http://127.0.0.1:9"}]
            """, token: nil)
        for _ in 0..<3 { #expect(try await RawClient.ask(bench.lanyard.data, "GET", "/").status == 503) }
        let before = try await Self.status(bench.admin)
        #expect(before.json["logins"].array.isEmpty)
        let route = before.json["routes"][0]
        #expect(route["recent"]["server_errors"].int == 3 && route["recent"]["token_missing"].int == 3, "\(route)")
        #expect(route["last_token_missing"]["error"].string?.isEmpty == false, "\(route)")
        #expect(
            before.text.hasPrefix("NOT READY: user alice is logged out; ") && !before.text.contains("route orders: "),
            "\(before.text)")
        let login = try ServerProcess("lanyard", ["login", "alice", "--admin", "\(bench.admin)"])
        try await eventually("the login waits") {
            try await Self.status(bench.admin).json["logins"][0]["user_code"].string == "WDJB-MJHT"
        }
        let status = try await Self.status(bench.admin)
        let shown = status.json["logins"][0]
        #expect(
            shown["name"].string == "alice" && shown["kind"].string == "device" && shown["status"].string == "pending")
        #expect(shown["verification_uri"].string == "http://\(provider.endpoint)/activate" && shown["id"] == .null)
        let instruction = "open http://\(provider.endpoint)/activate and enter WDJB-MJHT (ends in 1"
        #expect(
            status.text.hasPrefix(
                "NOT READY: user alice has no session yet: a login waits for its user; what to do: \(instruction)"),
            "\(status.text)")
        #expect(status.text.contains("\nlogin in progress: alice: \(instruction)"), "\(status.text)")
        #expect(!status.text.contains("hidden-device-code") && !"\(status.json)".contains("hidden-device-code"))
        login.signal(SIGINT)
        #expect(try await login.waitForExit() == .code(130))
        try await eventually("the login has ended") { try await Self.status(bench.admin).json["logins"].array.isEmpty }
    }

    @Test("on a terminal of 60 columns each line ends between words")
    func narrow() async throws {
        let bench = try await Self.start("routes: [{name: all, upstream: \"http://127.0.0.1:9\"}]\n")
        try await bench.lanyard.untilReady()
        _ = try await RawClient.ask(bench.lanyard.data, "GET", "/")
        let wide = try await Self.status(bench.admin).text
        let terminal = try PseudoTerminal(columns: 60)
        let process = try ServerProcess(
            "lanyard", ["status", "--admin", "\(bench.admin)"], environment: ["LC_ALL": "C"],
            input: .terminal(terminal, showsOutput: true))
        #expect(try await process.waitForExit() == .code(0))
        try await terminal.shows("reload")
        let lines = terminal.screen.split(separator: "\r\n")
        #expect(lines.allSatisfy { $0.count <= 60 } && lines.count > wide.split(separator: "\n").count, "\(lines)")
        let words = Set(terminal.screen.split(whereSeparator: \.isWhitespace))
        for word in wide.prefix(while: { $0 != "\n" }).split(separator: " ") where word.count < 56 {
            // The age may have changed.
            #expect(words.contains(word) || word.first?.isNumber == true || word.hasPrefix("("), "\(word): \(lines)")
        }
    }

    @Test("a failed reload, with its lines, until one succeeds")
    func failedReload() async throws {
        let route = "routes: [{name: all, upstream: \"http://127.0.0.1:9\"}]\n"
        let bench = try await Self.start(route)
        let path = bench.lanyard.folder.file("lanyard.yaml")
        let good = try String(contentsOfFile: path, encoding: .utf8)
        for (text, words) in [
            (good + "lgo: {}\n", #"unknown key "lgo"; did you mean "log"?"#),
            (
                good.replacing("health: {address: \"127.0.0.1:0\"}", with: "health: {address: \"127.0.0.1:1\"}"),
                "can change only at a start: "
            ),
        ] {
            try bench.lanyard.folder.write("lanyard.yaml", text)
            #expect(try await RawClient.ask(bench.admin, "POST", "/v1/reload").status == 422)
            let status = try await Self.status(bench.admin)
            #expect(status.json["failed_reload"]["errors"][0].string?.contains(words) == true, "\(status.json)")
            #expect(status.json["failed_reload"]["at"].string?.hasPrefix("20") == true)
            #expect(
                status.text.hasPrefix("WARNING: the reload of ") && status.text.contains(words)
                    && status.text.contains("; what to do: "), "\(status.text)")
        }
        try bench.lanyard.folder.write("lanyard.yaml", good)
        #expect(try await RawClient.ask(bench.admin, "POST", "/v1/reload").status == 200)
        let status = try await Self.status(bench.admin)
        #expect(status.json["failed_reload"] == .null && !status.text.contains("the reload of"), "\(status.text)")
    }

    @Test("a store that cannot be written, since when and why, until it can", .enabled("needs root") { getuid() == 0 })
    func storeFailure() async throws {
        let emulator = try await EmulatorProcess.start(tokens: "1800s")
        let device = try await Device.make(emulator, users: [Device.alice], rotation: "one_use", as: .nobody)
        func permit(_ mode: Int) throws {
            let files = FileManager.default
            try files.setAttributes([.posixPermissions: mode], ofItemAtPath: device.storeFolder)
            try files.setAttributes([.posixPermissions: mode & 0o600], ofItemAtPath: device.storePath)
        }
        let running = try await device.start()
        try await running.untilReady()
        #expect(try await Self.status(running.admin.endpoint).json["store_failure"] == .null)
        try permit(0o500)
        try await running.admin.call("POST", "/v1/users/alice/refresh")
        try await eventually("the store fails") {
            try await Self.status(running.admin.endpoint).json["store_failure"] != .null
        }
        let status = try await Self.status(running.admin.endpoint)
        let failure = status.json["store_failure"]
        #expect(failure["path"].string?.hasPrefix(device.storeFolder) == true, "\(failure)")
        #expect(failure["error"].string?.contains("; let uid ") == true, "\(failure)")
        #expect(failure["since"].string?.hasPrefix("20") == true)
        #expect(
            status.text.hasPrefix("WARNING: the store cannot be written, for ")
                && status.text.contains("; what to do: let uid "),
            "\(status.text)")
        #expect(try await running.check("store")["reason"].string == "store_failing")
        try permit(0o700)
        try await running.admin.call("POST", "/v1/users/alice/refresh")
        try await eventually("the store works") {
            try await Self.status(running.admin.endpoint).json["store_failure"] == .null
        }
    }

    @Test("certificates that end within 14 days: of listeners, routes and identities, with the file and the time")
    func certificates() async throws {
        let (folder, authority) = (try TemporaryFolder(), TestAuthority("Ends"))
        for (name, hours) in [("listener", 13 * 24), ("route", 60), ("identity", 24), ("later", 15 * 24)] {
            let issued = authority.issue("DNS:localhost", to: hours * 3600)
            try folder.write("\(name).pem", issued.certificate)
            try folder.write("\(name).key", issued.key)
        }
        func keys(_ name: String) -> String {
            "tls: {certificate_file: \(folder.file("\(name).pem")), key_file: \(folder.file("\(name).key"))}"
        }
        let bench = try await Self.start(
            """
            identities: {demo: {app_services: {app_id: a, base_url: "https://localhost:1"}, \(keys("identity"))}}
            users: {alice: {identity: demo, login: {anonymous: {}}}}
            routes:
              - {name: orders, upstream: "https://localhost:1", \(keys("route"))}
              - {name: later, match: {path: /later}, upstream: "https://localhost:1", \(keys("later"))}
            """, token: nil, listener: "address: \"127.0.0.1:0\", \(keys("listener"))")
        let status = try await Self.status(bench.admin)
        let expiring = status.json["expiring_certificates"].array
        #expect(
            expiring.map { $0["certificate"].string } == [
                "identity demo", "route orders", "listener \(bench.lanyard.data)",
            ])
        #expect(
            expiring.map { $0["file"].string } == ["identity", "route", "listener"].map { folder.file("\($0).pem") })
        #expect(expiring.allSatisfy { $0["expires_at"].string?.hasPrefix("20") == true })
        #expect(
            status.text.contains("\nWARNING: the certificate of route orders ends in 2 d (")
                && status.text.contains(
                    "); what to do: renew \(folder.file("route.pem")), which is read again by itself\n"),
            "\(status.text)")
    }

    @Test(
        "the certificate that an identity service has shown, if it ends within 14 days",
        .enabled(if: PythonProcess.isInstalled, "needs Python"))
    func identityCertificate() async throws {
        let service = try await TLSUpstream.start(TLSUpstream.authority.issue(to: 4 * 86_400 + 43_200))
        let trust = "tls: {ca_file: \(service.folder.file("ca.pem"))}"
        let bench = try await Self.start(
            """
            identities: {demo: {app_services: {app_id: a, base_url: "\(service.url)"}, \(trust)}}
            users: {alice: {identity: demo, login: {anonymous: {}}}}
            routes: [{upstream: "http://127.0.0.1:1"}]
            """, token: nil)
        try await eventually("the service has responded") {
            try await Self.status(bench.admin).json["expiring_certificates"].array.isEmpty == false
        }
        let status = try await Self.status(bench.admin)
        let certificate = status.json["expiring_certificates"][0]
        #expect(certificate["certificate"].string == "the identity service demo" && certificate["file"] == .null)
        #expect(
            status.text.contains("WARNING: the certificate of the identity service demo ends in 4 d (")
                && status.text.contains("); what to do: have its owner renew it"), "\(status.text)")
    }

    @Test(
        "the certificate that an upstream has shown, if it ends within 14 days",
        .enabled(if: PythonProcess.isInstalled, "needs Python"))
    func upstreamCertificate() async throws {
        let upstream = try await TLSUpstream.start(TLSUpstream.authority.issue(to: 4 * 86_400 + 43_200))
        let bench = try await Self.start("routes: [{name: all, upstream: \"\(upstream.url)\", \(upstream.trust)}]\n")
        try await bench.lanyard.untilReady()
        #expect(try await Self.status(bench.admin).text.hasPrefix("ready\n"))
        #expect(try await RawClient.ask(bench.lanyard.data, "GET", "/").status == 200)
        let status = try await Self.status(bench.admin)
        let certificate = status.json["expiring_certificates"][0]
        #expect(certificate["certificate"].string == "the upstream of route all" && certificate["file"] == .null)
        let line = status.text.prefix { $0 != "\n" }
        #expect(
            line.hasPrefix("WARNING: the certificate of the upstream of route all ends in 4 d (")
                && line.hasSuffix("); what to do: have its owner renew it"), "\(status.text)")
    }
}
