import TestSupport
import Testing

@testable import LanyardConfiguration
@testable import LanyardSettings

/// Whole documents: what they make of the settings.
@Suite struct ConfigurationTests {
    @Test("a small file with nothing but what is needed leaves every default")
    func defaults() throws {
        let (loaded, diagnostics) = try Loading.load(Loading.whole)
        #expect(diagnostics == [])
        let configuration = try #require(loaded.configuration)
        #expect(configuration.listeners == [ListenerSettings(address: .tcp(host: "127.0.0.1", port: 7400))])
        #expect(configuration.health == HealthSettings())
        #expect(configuration.activeUser == "alice")
        #expect(configuration.refresh == RefreshSettings())
        #expect(configuration.limits == LimitSettings())
        #expect(configuration.log == LogSettings())
        #expect(configuration.shutdown == ShutdownSettings())
        #expect(configuration.loginRequiredStatus == 503)
        #expect(configuration.shards == nil)
        #expect(
            configuration.routes == [
                .init(
                    route: RouteSettings(name: "default"),
                    upstream: UpstreamSettings(
                        endpoint: .tcp(host: "127.0.0.1", port: 9000, tls: false), authority: "127.0.0.1:9000"))
            ])
    }

    static let full = """
        listeners:
          - address: 127.0.0.1:7400
            allowed_hosts: [LOCALHOST:7400, api.internal, "[::1]:7400"]
            allowed_origins: [https://app.example.com, "null"]
          - address: unix:/run/lanyard/data.sock
            socket_mode: "0660"
          - {address: "0.0.0.0:7402", unsafe: true, allowed_hosts: ["api.internal:7402"]}
        health: {address: "[::1]:7401"}
        identities:
          demo:
            app_services: {app_id: demo-abcde, base_url: "https://127.0.0.1:7490/"}
            tls: {ca_file: ca.pem, certificate_file: cert.pem, key_file: key.pem}
            proxy: http://127.0.0.1:3128
          fixed:
            static: {token_file: token}
        users:
          zoe:
            identity: demo
            login: {email_password: {email: zoe@example.com, password_file: password}}
          alice: {identity: demo, login: {api_key: {key_file: key}}}
          kiosk: {identity: demo, login: {anonymous: {}}}
          robot: {identity: fixed}
        active_user: alice
        routes:
          - name: orders
            match: {hosts: [Orders.Internal], path: /orders, methods: [GET, POST]}
            deny: [{path: /orders/admin}, {path: /orders/x, methods: [POST]}]
            upstream: http://127.0.0.1:9000/v1
            user: robot
            inject: {header: X-Token, format: "t={token};"}
            client_authorization: reject
            host: {value: api.internal}
            set_headers: {X-Tenant: blue, X-Empty: "", X-Key: {file: key}}
            request_id_header: X-Request-Id
            body_bytes_max: 10MiB
            forwarded: append
            redirects: {mode: pass, fields: [X-Next]}
            cookies: pass
            paths: strict
            errors: jsonrpc
            wait_max: 40s
            unauthorized: 503
            timeouts: {connect: 1s, connect_all: 2s, response_header: 3s, request_idle: 4s, response_idle: 0s, write: 6s}
            connections_max: 7
          - name: rest
            upstream: unix:/run/up.sock
            host: client
          - {name: far, match: {path: /far}, upstream: http://api.internal:8080, unsafe_plain: true}
        refresh: {at: 50-60%, mandatory: 30s, wait_max: 2s, cooldown: 20s, per_hour_max: 10,
                  second_call_after: 3s, attempt_timeout: 20s}
        limits: {connections_max: 100, requests_per_connection_max: 1000, header_bytes_max: 32KiB,
                 header_fields_max: 64, request_line_bytes_max: 8KiB, header_timeout: 5s, idle_timeout: 30s, parked_requests_max: 10}
        upstream_dns: {refresh: 5s}
        login_required_status: 401
        log: {level: debug, format: json, access: false}
        shutdown: {drain_min: 1s, drain_max: 5s, exit_zero_on_sigterm: true}
        shards: 3

        """

    private func full() throws -> Configuration {
        let files = ["ca.pem", "cert.pem", "key.pem", "token", "password", "key"]
        let (loaded, diagnostics) = try Loading.load(Self.full, files: files)
        #expect(diagnostics == [])
        return try #require(loaded.configuration)
    }

    @Test("every listener's keys arrive, hosts in lower case and with their port")
    func listeners() throws {
        let configuration = try full()
        var first = ListenerSettings(address: .tcp(host: "127.0.0.1", port: 7400))
        first.allowedHosts = ["localhost:7400", "api.internal:80", "[::1]:7400"]
        first.allowedOrigins = ["https://app.example.com", "null"]
        var second = ListenerSettings(address: .unix(path: "/run/lanyard/data.sock"))
        second.socketMode = 0o660
        var third = ListenerSettings(address: .tcp(host: "0.0.0.0", port: 7402))
        third.isUnsafe = true
        third.allowedHosts = ["api.internal:7402"]
        #expect(configuration.listeners == [first, second, third])
        #expect(configuration.health?.address == .tcp(host: "::1", port: 7401))
    }

    @Test("identities and users keep their order and their files' paths start at the file's folder")
    func accounts() throws {
        let configuration = try full()
        #expect(configuration.identities.map(\.name) == ["demo", "fixed"])
        let demo = configuration.identities[0]
        #expect(demo.kind == .appServices(.init(appID: "demo-abcde", baseURL: "https://127.0.0.1:7490")))
        #expect(demo.caFile?.hasPrefix("/tmp/") == true && demo.caFile?.hasSuffix("/ca.pem") == true)
        #expect(demo.certificateFile != nil && demo.keyFile != nil)
        #expect(demo.proxy == .url("http://127.0.0.1:3128"))
        #expect(configuration.users.map(\.name) == ["zoe", "alice", "kiosk", "robot"])
        #expect(configuration.users.map(\.identity) == ["demo", "demo", "demo", "fixed"])
        let login = try #require(configuration.users[0].login)
        #expect((login.kind, login.account) == (.emailPassword, "zoe@example.com"))
        let file = try #require(login.secretFile)
        #expect(file.hasPrefix("/tmp/") && file.hasSuffix("/password"))
        #expect(configuration.users[2].login == .anonymous)
        #expect(configuration.users[3].login == nil)
        #expect(configuration.activeUser == "alice")
    }

    @Test("every route's keys arrive")
    func routes() throws {
        let configuration = try full()
        var orders = RouteSettings(name: "orders")
        orders.hosts = ["orders.internal"]
        orders.path = "/orders"
        orders.methods = ["GET", "POST"]
        orders.deny = [.init(path: "/orders/admin"), .init(path: "/orders/x", methods: ["POST"])]
        orders.upstreamPath = "/v1"
        orders.user = "robot"
        (orders.injectHeader, orders.injectPrefix, orders.injectSuffix) = ("X-Token", "t=", ";")
        orders.clientAuthorization = .reject
        orders.host = .value("api.internal")
        // Its folder is another one at each load.
        let file = try #require(configuration.routes[0].route.setHeaders.last?.file)
        #expect(file.hasPrefix("/tmp/") && file.hasSuffix("/key"))
        orders.setHeaders = [
            .init(name: "X-Tenant", value: "blue"), .init(name: "X-Empty", value: ""), .init(name: "X-Key", file: file),
        ]
        orders.requestIDHeader = "X-Request-Id"
        orders.bodyBytesMax = 10 << 20
        orders.forwarded = .append
        orders.redirects = .pass
        orders.redirectFields = ["X-Next"]
        orders.cookies = .pass
        orders.paths = .strict
        (orders.errors, orders.waitMax, orders.unauthorized) = (.jsonrpc, .seconds(40), .problem)
        #expect(configuration.routes[0].route == orders)
        var upstream = UpstreamSettings(
            endpoint: .tcp(host: "127.0.0.1", port: 9000, tls: false), authority: "127.0.0.1:9000")
        upstream.timeouts.connect = .seconds(1)
        upstream.timeouts.connectAll = .seconds(2)
        upstream.timeouts.responseHeader = .seconds(3)
        upstream.timeouts.requestIdle = .seconds(4)
        upstream.timeouts.responseIdle = nil
        upstream.timeouts.write = .seconds(6)
        upstream.connectionsMax = 7
        upstream.dns.refresh = .seconds(5)
        #expect(configuration.routes[0].upstream == upstream)
        #expect(configuration.routes[1].upstream.endpoint == .unix(path: "/run/up.sock"))
        #expect(configuration.routes[1].upstream.authority == "localhost")
        #expect(configuration.routes[1].route.host == .client)
        #expect(configuration.routes[2].upstream.authority == "api.internal:8080")
    }

    @Test("the process's keys arrive")
    func process() throws {
        let configuration = try full()
        var refresh = RefreshSettings()
        (refresh.at, refresh.mandatory, refresh.waitMax) = (0.5...0.6, .seconds(30), .seconds(2))
        (refresh.cooldown, refresh.perHourMax) = (.seconds(20), 10)
        (refresh.secondCallAfter, refresh.attemptTimeout) = (.seconds(3), .seconds(20))
        #expect(configuration.refresh == refresh)
        var limits = LimitSettings()
        (limits.connectionsMax, limits.requestsPerConnectionMax) = (100, 1000)
        (limits.headerBytesMax, limits.headerFieldsMax, limits.requestLineBytesMax) = (32 << 10, 64, 8 << 10)
        (limits.headerTimeout, limits.idleTimeout) = (.seconds(5), .seconds(30))
        limits.parkedRequestsMax = 10
        #expect(configuration.limits == limits)
        #expect(configuration.loginRequiredStatus == 401)
        #expect(configuration.log.level == .debug && !configuration.log.logsAccess)
        #expect(configuration.shutdown.drainMin == .seconds(1) && configuration.shutdown.drainMax == .seconds(5))
        #expect(configuration.shutdown.exitZeroOnSIGTERM)
        #expect(configuration.shards == 3)
    }

    @Test("health can be off, as a word or as its address", arguments: ["health: off", "health: {address: off}"])
    func healthOff(_ line: String) throws {
        #expect(try Loading.load(Loading.whole + line).loaded.configuration?.health == nil)
    }

    @Test("what is printed loads as the same configuration, and holds no secret", arguments: [true, false])
    func printed(isFull: Bool) throws {
        let folder = try TemporaryFolder()
        for file in ["ca.pem", "cert.pem"] { try folder.write(file, TestCertificate.pem + "hunter2") }
        for file in ["key.pem", "token", "password", "key"] { try folder.write(file, "hunter2") }
        let first = try folder.write("a.yaml", isFull ? Self.full : Loading.whole)
        let loaded = Configuration.load(arguments: ["--config", first], environment: [:])
        let second = try folder.write("b.yaml", loaded.printed)
        let again = Configuration.load(arguments: ["--config", second], environment: [:])
        #expect(again.diagnostics == [])
        #expect(again.configuration != nil && again.configuration == loaded.configuration)
        #expect(again.printed == loaded.printed)
        #expect(!loaded.printed.contains("hunter2"))
    }

    @Test("what is printed names the memory store and the sole route, which no operator has to write")
    func printedDefaults() throws {
        let printed = try Loading.load(Loading.whole).loaded.printed
        #expect(printed.contains("\nstore:\n  memory: true\n"))
        #expect(printed.contains("\nroutes:\n  - name: default\n"))
        let kept = try Loading.load(
            Loading.whole + "store: {path: /var/lib/s, key_file: key}\n", files: ["token", "key"]
        ).loaded.printed
        #expect(kept.contains("  path: /var/lib/s\n") && !kept.contains("memory"))
    }

    @Test("each kind of login has its keys", arguments: LoginKind.allCases)
    func loginKeys(_ kind: LoginKind) {
        #expect(ConfigurationKeys.keys(in: "users.*.login").contains { $0.name == kind.provider })
        guard let key = kind.fileKey else { return }
        #expect(ConfigurationKeys.all.contains { $0.path == "users.*.login.\(kind.provider).\(key)" })
    }

    @Test(
        "each kind of login arrives with its file, also as a systemd credential, and prints as itself",
        arguments: [
            ("function: {payload_file: f}", .function(payload: "f")),
            ("jwt: {token_file: f}", .jwt("f")),
            ("facebook: {access_token_file: f}", .facebook(accessToken: "f")),
            ("google: {id_token_file: f}", .googleIDToken("f")),
            ("google: {auth_code_file: f}", .googleAuthCode("f")),
            ("apple: {id_token_file: f}", .apple(idToken: "f")),
        ] as [(String, UserSettings.Login)])
    func loginKinds(_ text: String, _ login: UserSettings.Login) throws {
        let folder = try TemporaryFolder()
        try folder.write("f", "hunter2")
        for isCredential in [false, true] {
            let given = isCredential ? text.replacing("_file", with: "_credential") : text
            let yaml = """
                identities: {demo: {app_services: {app_id: a, base_url: "http://127.0.0.1:1"}}}
                users: {alice: {identity: demo, login: {\(given)}}}
                routes: [{upstream: "http://127.0.0.1:9000"}]
                """
            let first = try folder.write("a.yaml", yaml)
            let environment = isCredential ? ["CREDENTIALS_DIRECTORY": folder.path] : [:]
            let loaded = Configuration.load(arguments: ["--config", first], environment: environment)
            #expect(loaded.diagnostics == [])
            let found = try #require(loaded.configuration?.users.first?.login)
            #expect(found.secretFile == folder.file("f"))
            #expect(found.provider == login.provider && "\(found)".replacing(folder.path + "/", with: "") == "\(login)")
            let second = try folder.write("b.yaml", loaded.printed)
            let again = Configuration.load(arguments: ["--config", second], environment: environment)
            #expect(again.configuration?.users == loaded.configuration?.users)
            #expect(!loaded.printed.contains("hunter2"))
        }
    }

    @Test("a systemd credential is a file in the folder that systemd names")
    func credentials() throws {
        let folder = try TemporaryFolder()
        try folder.write("token", "t")
        let text = "identities: {i: {static: {token_credential: token}}}\nusers: {u: {identity: i}}\n" + Loading.routes
        let loaded = try Loading.load(text, environment: ["CREDENTIALS_DIRECTORY": folder.path]).loaded
        #expect(loaded.configuration?.identities.first?.kind == .staticToken(file: folder.file("token")))
        #expect(
            try Loading.diagnostics(text) == [
                "lanyard.yaml:1:45: identities.i.static.token_credential: systemd passed no credentials; "
                    + "add LoadCredential=token:/PATH to the unit, or use token_file"
            ])
    }
}
