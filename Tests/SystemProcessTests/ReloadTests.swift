import Foundation
import TestSupport
import Testing

@testable import SystemTestSupport

/// SIGHUP and `POST /v1/reload`: all of a new configuration or nothing of it (architecture-control.md 7.9).
@Suite struct ReloadTests {
    private let lanyard: ReloadedLanyard

    init() async throws { lanyard = try await ReloadedLanyard() }

    @Test("the log level and the drain change at once; nothing else is touched")
    func applied() async throws {
        let kept = try RawClient(lanyard.process.data)
        try lanyard.configure("log: {level: debug, access: false}\nshutdown: {exit_zero_on_sigterm: true}")
        let response = try await lanyard.reload()
        #expect(response.status == 200)
        #expect(response.bodyText == #"{"applied":["log.level","shutdown.exit_zero_on_sigterm"]}"#)
        #expect(try await lanyard.level() == #"{"level":"debug","configured":"debug"}"#)
        let host = "\(lanyard.process.data)"
        #expect(try kept.exchange("GET", "/", host: host).status == 200)
        #expect(try await lanyard.reload().bodyText == #"{"applied":[]}"#)
        #expect(try await lanyard.process.process.terminate() == .code(0))
    }

    @Test("the format of the log changes at once, that of the access log as well, and back")
    func format() async throws {
        try lanyard.configure("log: {format: text}")
        #expect(try await lanyard.reload().bodyText == #"{"applied":["log.format","log.access"]}"#)
        func lines(_ text: String) -> Int { lanyard.process.process.lines.count { $0.text.contains(text) } }
        try await eventually("the reload is logged as text") {
            lines(" notice admin call event=admin.call call=reload ") == 1
        }
        // Each has a connection of its own, so that several shards serve them.
        for _ in 0..<8 { #expect(try await lanyard.process.get("/text").status == 200) }
        try await eventually("requests are logged as text") { lines(" path=/text status=200 ") == 8 }
        try lanyard.configure("log: {format: json}")
        try await lanyard.reload(applies: "log.format")
        for _ in 0..<8 { #expect(try await lanyard.process.get("/json").status == 200) }
        try await eventually("requests are logged as JSON") { lines(#""path":"/json","status":200,"#) == 8 }
        #expect(lines(#""event":"reload.applied""#) == 1 && lines("path=/json") == 0)
    }

    @Test("the probes of quiet connections apply to connections that begin after the reload, and not to earlier ones")
    func keepAlive() async throws {
        func secondsToProbe(_ client: Wire) throws -> Double? {
            try #require(try KernelSocket.find(local: lanyard.process.data.port, remote: client.localPort))
                .secondsToProbe
        }
        func client() async throws -> Wire {
            let client = try await Wire.connect(to: lanyard.process.data)
            try await client.send("GET / HTTP/1.1\r\nHost: \(lanyard.process.data)\r\n\r\n")
            #expect(try await client.response().status == 200)
            return client
        }
        let first = try await client()
        #expect((1...30).contains(try secondsToProbe(first) ?? 0))
        try lanyard.configure("limits: {keepalive_idle: 1h}\nlog: {access: false}")
        try await lanyard.reload(applies: "limits.keepalive_idle")
        let second = try await client()
        #expect((3000...3600).contains(try secondsToProbe(second) ?? 0))
        #expect((1...30).contains(try secondsToProbe(first) ?? 0))
        try lanyard.configure("limits: {keepalive_idle: none}\nlog: {access: false}")
        try await lanyard.reload(applies: "limits.keepalive_idle")
        #expect(try secondsToProbe(try await client()) == nil)
        #expect((3000...3600).contains(try secondsToProbe(second) ?? 0))
    }

    @Test("audit lines are written whatever the level of the log is")
    func audit() async throws {
        let admin = AdminClient(endpoint: lanyard.admin)
        func lines(_ event: String) -> [JSON] {
            lanyard.process.process.lines.filter { $0.event == event }.map(\.json)
        }
        try await admin.call("POST", "/v1/log-level", #"{"level":"critical"}"#)
        try await eventually("the call that silences the log is logged; \(lanyard.process.process.log)") {
            lines("log.level").count == 1 && lines("admin.call").count == 1
        }
        try lanyard.configure("log: {level: warning, access: false}")
        try await lanyard.reload(applies: "log.level")
        try await eventually("the reload is logged") {
            lines("reload.applied").count == 1 && lines("admin.call").count == 2
        }
        try lanyard.configure("log: {level: critical, access: false}")
        lanyard.process.process.signal(SIGHUP)
        try await eventually("a reload by a signal is logged") { lines("reload.applied").count == 2 }
        try lanyard.configure("log: {level: critical, access: false}\nshards: 3")
        #expect(try await lanyard.reload().status == 422)
        try await lanyard.process.process.event("reload.restart_needed")
        try lanyard.configure("log: [")
        #expect(try await lanyard.reload().status == 422)
        try await lanyard.process.process.event("reload.failed")
        for count in [2, 3] {
            lanyard.process.process.signal(SIGUSR1)
            try await eventually("SIGUSR1 is logged") { lines("log.level").count == count }
        }
        #expect(try await admin.ask("POST", "/v1/shutdown").status == 202)
        #expect(try await lanyard.process.process.waitForExit() == .code(0))
        #expect(
            lines("admin.call").map { $0["call"].string } == [
                "set_log_level", "reload", "reload", "reload", "shutdown",
            ])
    }

    @Test("SIGHUP reloads; a flood of it is served and ends nothing")
    func signal() async throws {
        try lanyard.configure("log: {level: warning, access: false}")
        for _ in 0..<500 { lanyard.process.process.signal(SIGHUP) }
        try await eventually("the level is another one") {
            try await lanyard.level() == #"{"level":"warning","configured":"warning"}"#
        }
        #expect(try await lanyard.process.get("/").status == 200)
    }

    @Test(
        "a wrong configuration changes nothing, and the response has the words of check",
        arguments: ["lgo: {level: debug}", "log: {level: loud}", "log: [", "shutdown: {drain_max: 5}"])
    func wrong(_ text: String) async throws {
        try lanyard.configure(text)
        let check = try await CommandRun(["check", "--config", lanyard.path])
        let words = try #require(check.errors.first { $0.hasPrefix("error: ") }).dropFirst("error: ".count)
        let response = try await lanyard.reload()
        #expect(response.status == 422)
        let detail = try JSON(text: response.bodyText)["detail"].string ?? ""
        #expect(detail.contains("Nothing was changed.") && detail.contains(words), "\(detail) lacks \(words)")
        try await lanyard.process.process.event("reload.failed") { $0["reason"].string == String(words) }
        try await lanyard.isUnchanged()
    }

    @Test("a configuration that has vanished changes nothing")
    func vanished() async throws {
        try FileManager.default.removeItem(atPath: lanyard.path)
        let response = try await lanyard.reload()
        #expect(response.status == 422 && response.bodyText.contains("configuration-invalid"), "\(response.bodyText)")
        #expect(try await lanyard.level() == #"{"level":"info","configured":"info"}"#)
    }

    @Test("a token file that has vanished is a warning, as at the start")
    func withoutToken() async throws {
        try lanyard.configure("log: {level: debug, access: false}")
        try FileManager.default.removeItem(atPath: lanyard.process.folder.file("token"))
        let response = try await lanyard.reload()
        #expect(response.status == 200, "\(response.bodyText)")
        try await lanyard.process.process.event("configuration.warning")
    }

    @Test("a key that needs a restart is named, and nothing is changed")
    func restart() async throws {
        try lanyard.configure(
            "log: {level: debug, access: false}\nsandbox: off\nshards: 3", listener: ", unsafe: true",
            route: ", user: alice")
        let response = try await lanyard.reload()
        #expect(response.status == 422 && response.bodyText.contains("restart-needed"))
        let names = "sandbox, shards"
        #expect(response.bodyText.contains("only at a start: \(names)."), "\(response.bodyText)")
        try await lanyard.process.process.event("reload.restart_needed") { $0["keys"].string == names }
        try await lanyard.isUnchanged()
        let command = try await CommandRun(["reload", "--admin", "\(lanyard.admin)"])
        #expect(command.exit == .code(1) && command.errors.joined().contains(names), "\(command.errors)")
    }

    @Test("reloads at the same time each have a response")
    func together() async throws {
        try lanyard.configure("log: {level: notice, access: false}")
        let lanyard = lanyard
        let statuses = try await withThrowingTaskGroup(of: Int.self) { group in
            for _ in 0..<8 { group.addTask { try await lanyard.reload().status } }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        #expect(statuses == Array(repeating: 200, count: 8))
        #expect(try await lanyard.level() == #"{"level":"notice","configured":"notice"}"#)
    }

    @Test("a configuration that has become a pipe is refused at once")
    func pipe() async throws {
        try FileManager.default.removeItem(atPath: lanyard.path)
        _ = try Fifo(in: lanyard.process.folder)
        let response = try await lanyard.reload()
        #expect(response.status == 422 && response.bodyText.contains("not a regular file"), "\(response.bodyText)")
        try await lanyard.isUnchanged()
    }

    @Test(
        "a reload that hangs in a file delays neither requests nor the end", .enabled(if: !Sanitizer.isOn),
        arguments: ["lanyard.yaml", "token"])
    func hanging(_ name: String) async throws {
        let lanyard = try await ReloadedLanyard(launcher: HangingFiles.launcher())
        try HangingFiles.hang(lanyard.process.folder.file(name))
        lanyard.process.process.signal(SIGHUP)
        try await eventually("the reload is in progress") {
            let page = try await RawClient.ask(lanyard.process.health, "GET", "/metrics").bodyText
            return page.contains("lanyard_config_reload_running_seconds ")
                && !page.contains("lanyard_config_reload_running_seconds 0\n")
        }
        #expect(try await lanyard.process.get("/").status == 200)
        #expect(try await lanyard.process.process.terminate() == .code(143))
    }

    @Test("the log level at run time: by command, back by SIGUSR1, not by a reload with the same level")
    func level() async throws {
        let flags = ["--admin", "\(lanyard.admin)"]
        let shown = try await CommandRun(["log", "level"] + flags)
        #expect(shown.output == "info\n", "\(shown.errors)")
        let set = try await CommandRun(["log", "level", "warning"] + flags)
        #expect(set.output == "warning (configured: info)\n", "\(set.errors)")
        #expect(try await lanyard.reload().bodyText == #"{"applied":[]}"#)
        #expect(try await lanyard.level() == #"{"level":"warning","configured":"info"}"#)
        let process = lanyard.process.process
        for level in ["debug", "info"] {
            process.signal(SIGUSR1)
            try await process.event("log.level") { $0["verbosity"].string == level }
        }
        let wrong = try await CommandRun(["log", "level", "loud"] + flags)
        #expect(wrong.exit == .code(64))
        for body in [#"{"level": "loud"}"#, #"{"level": 1}"#, "{}", #"{"level": "info", "x": 1}"#] {
            #expect(try await RawClient.ask(lanyard.admin, "POST", "/v1/log-level", body: body).status == 422)
        }
    }
}

/// A running Lanyard with an admin API, whose configuration the test writes anew.
struct ReloadedLanyard: Sendable {
    let process: LanyardProcess
    let admin: RawEndpoint
    let upstream: RawServer
    private let sockets: TemporaryFolder

    /// - Parameters:
    ///   - script: of the upstream.
    ///   - clock: of the program; nil: real time.
    ///   - launcher: starts the program.
    init(
        _ script: @escaping RawServer.Script = { _ in .response() }, under clock: TestClock? = nil,
        launcher: [String] = []
    ) async throws {
        sockets = try TemporaryFolder()
        upstream = try RawServer(requestsKeptMax: 0, script: script)
        admin = .unix(sockets.file("admin.sock"))
        process = try await LanyardProcess.start(
            "routes: [{name: all, upstream: \"http://\(upstream.endpoint)\"}]\nlog: {access: false}\n", token: "t",
            admin: "{address: \"\(admin)\"}", under: clock, launcher: launcher)
        try await process.untilReady()
    }

    /// Where its configuration is.
    var path: String { process.folder.file("lanyard.yaml") }

    /// Writes the configuration of the start with other sections.
    ///
    /// - Parameters:
    ///   - listener: further keys of the listener.
    ///   - to: the upstream of the route; nil: the one of the start.
    ///   - route: further keys of the route.
    ///   - more: further routes.
    ///   - user: the name of the only user.
    func configure(
        _ rest: String = "log: {access: false}", listener: String = "", to other: RawServer? = nil, route: String = "",
        more: [String] = [], user: String = "alice"
    ) throws {
        let routes = ["{name: all, upstream: \"http://\((other ?? upstream).endpoint)\"\(route)}"] + more
        try process.folder.write(
            "lanyard.yaml",
            """
            listeners: [{address: "127.0.0.1:0"\(listener)}]
            health: {address: "127.0.0.1:0"}
            admin: {address: "\(admin)"}
            identities: {fixed: {static: {token_file: \(process.folder.file("token"))}}}
            users: {\(user): {identity: fixed}}
            routes: [\(routes.joined(separator: ", "))]
            \(rest)

            """)
    }

    func reload() async throws -> RawMessage { try await RawClient.ask(admin, "POST", "/v1/reload") }

    /// Reloads and expects these keys to be applied.
    func reload(applies keys: String...) async throws {
        let response = try await reload()
        let list = keys.map { "\"\($0)\"" }.joined(separator: ",")
        #expect(response.bodyText == "{\"applied\":[\(list)]}")
    }

    /// The body of `GET /v1/log-level`.
    func level() async throws -> String { try await RawClient.ask(admin, "GET", "/v1/log-level").bodyText }

    /// It runs with the configuration of its start.
    func isUnchanged() async throws {
        #expect(try await level() == #"{"level":"info","configured":"info"}"#)
        #expect(try await process.get("/").status == 200)
    }
}
