import LanyardFoundations
import Testing

@testable import LanyardClient

/// `lanyard status` as one screen: the first line says what is wrong and what to do.
@Suite struct StatusScreenTests {
    private static let now = Timestamp.read("2026-11-23T12:00:00.000Z")!

    private static let alice = """
        "name":"alice","identity":"demo","user_id":"65f0","state":"active","session":"valid","generation":7,
         "access_token_expires_at":"2026-11-23T12:23:10.000Z","refresh_token_expires_at":"2027-01-22T12:00:00.000Z",
         "next_refresh_at":"2026-11-23T12:13:00.000Z","last_error":null,"failing_since":null,"action":"nobody","call":null
        """

    /// An object with other members in the place of its own.
    private static func object(_ own: String, with members: String) throws -> JSONValue {
        func read(_ text: String) throws -> [JSONValue.Member] {
            var buffer = SecretBuffer()
            buffer.append("{\(text)}")
            let json = try #require(JSONValue.read(buffer.seal()), "\(text)")
            guard case .object(let members) = json else { return [] }
            return members
        }
        let others = try read(members)
        let kept = try read(own).filter { member in !others.contains { $0.name == member.name } }
        return .object(kept + others)
    }

    private static func text(_ json: JSONValue) -> String { JSONLayout.text(json).lines.joined() }

    /// A status of a Lanyard for which all is well, with other members in the place of its own.
    private static func report(_ members: String = "", users: [String]? = nil) throws -> StatusReport {
        let users = try users ?? [user("")]
        let json = try object(
            """
            "version":"0.1.0","uptime_seconds":7500,"active_user":"alice",
            "listeners":[{"listener":"data","address":"127.0.0.1:7400"},{"listener":"admin","address":"unix:/a"}],
            "readiness":{"status":"ready","checks":[{"name":"session:alice","ok":true,"reason":"token_valid"},
             {"name":"listener","ok":true,"reason":"listening"},{"name":"store","ok":true,"reason":"stored"},
             {"name":"clock","ok":true,"reason":"clock_in_step"}]},
            "requests":{"parked":0,"parked_max":1024,"client_connections":3,"client_connections_max":512,
             "without_route":{"recent":{"seconds":300,"requests":0,"server_errors":0,"refused":0,"token_refused":0},
             "last_overload":null}},
            "routes":[\(try route())],
            "identities":[{"identity":"demo","url":"http://127.0.0.1:7490","reachable":true,
             "last_success_at":"2026-11-23T11:58:00.000Z","last_error":null}],
            "store":{"state":"stored","path":"/var/lib/lanyard/sessions"},
            "clock":{"skew_seconds":0.4,"in_step":true},
            "descriptors":{"open":41,"open_max":1024,"last_shortage_at":null},
            "last_reload_at":"2026-11-23T10:00:00.000Z","stopping":null,"store_failure":null,"failed_reload":null,
            "slow_calls":[],"expiring_certificates":[],"users":[\(users.joined(separator: ","))]
            """, with: members)
        return try #require(StatusReport(json))
    }

    private static func route(
        recent: String = #""requests":120,"server_errors":0,"refused":2,"token_refused":0"#, _ members: String = ""
    ) throws -> String {
        text(
            try object(
                """
                "route":"orders","upstream":"http://127.0.0.1:9000","user":null,
                "recent":{"seconds":300,\(recent)},"last_overload":null,"last_response_at":"2026-11-23T11:59:58.000Z",
                "last_upstream_error":null,"breaker_open":false,"breaker_opened_at":null,"in_flight":3,"waiting":0
                """, with: members))
    }

    private static func checks(_ name: String, _ reason: String, ok: Bool = false) -> String {
        #""readiness":{"status":"\#(ok ? "ready" : "not_ready")","checks":[{"name":"\#(name)","ok":\#(ok),"reason":"\#(reason)"}]}"#
    }

    private static func user(_ members: String) throws -> String { text(try object(alice, with: members)) }

    @Test("of many users those with an error are shown first, or those around the chosen one; the others are counted")
    func manyUsers() throws {
        let users = try (100..<200).map { number in
            try Self.user(#""name":"u\#(number)"\#(number == 190 ? #","session":"refused","action":"operator""# : "")"#)
        }
        func rows(_ selected: String?, max: Int?) throws -> (names: [String], rest: String?) {
            let lines = StatusScreen.text(
                try Self.report(users: users), now: Self.now, selectedUser: selected, usesColour: false, rowsMax: max
            ).lines
            let names = lines.compactMap { $0.split(separator: " ").first.map(String.init) }
            return (
                names.filter { $0.count == 4 && $0.first == "u" }, lines.first { $0.hasPrefix("...") }
            )
        }
        let some = try rows(nil, max: 4)
        #expect(some.names == ["u190", "u100", "u101", "u102"])
        #expect(some.rest == "... 96 more users: --user and --state choose some, --limit shows more")
        #expect(try rows("u150", max: 4).names == ["u148", "u149", "u150", "u151"])
        #expect(try rows("u199", max: 4).names == ["u196", "u197", "u198", "u199"])
        #expect(try rows("u100", max: 4).names.first == "u100")
        let all = try rows(nil, max: nil)
        #expect(all.names.count == 100 && all.rest == nil)
    }

    private static func first(_ report: StatusReport) -> String {
        StatusScreen.text(report, now: now, usesColour: false).lines[0]
    }

    @Test("all is well: one word, then the process, users, routes and identity services")
    func well() throws {
        #expect(
            StatusScreen.text(try Self.report(), now: Self.now, usesColour: false).lines == [
                "ready",
                "",
                "lanyard 0.1.0, up 2 h, 1 user, alice is active",
                "listening: data 127.0.0.1:7400, admin unix:/a",
                "store: /var/lib/lanyard/sessions (works); clock: the service's is +0.4 s; descriptors: 41 of 1024; "
                    + "configuration: read 2 h ago",
                "clients: 3 of 512; waiting requests: 0 of 1024",
                "",
                "USER   STATE   SESSION  IDENTITY  TOKEN              SESSION ENDS  NEXT REFRESH  MUST ACT  LAST ERROR",
                "alice  active  valid    demo      expires in 23 min  in 60 d       in 13 min     nobody    -",
                "",
                "ROUTE   USER      UPSTREAM               IN 5 MIN  5XX  REFUSED  401  IN FLIGHT  WAITING  BREAKER  LAST UPSTREAM ERROR",
                "orders  (active)  http://127.0.0.1:9000  120       0    2        0    3          0        closed   -",
                "",
                "IDENTITY  URL                    REACHABLE  LAST SUCCESS  LAST ERROR",
                "demo      http://127.0.0.1:7490  yes        2 min ago     -",
            ])
    }

    @Test("HTTP/2: a line for each side that has used it, none before; status and top have the same")
    func http2() throws {
        func side(_ connections: Int, _ open: Int, _ streams: Int, _ resets: (Int, Int), _ rest: String) -> String {
            #"{"connections":\#(connections),"open_streams":\#(open),"streams":\#(streams),"#
                + #""resets":{"peer":\#(resets.0),"refused":\#(resets.1)},\#(rest)}"#
        }
        func lines(_ clients: String, _ upstreams: String) throws -> [String] {
            let report = try Self.report(#""http2":{"clients":\#(clients),"upstreams":\#(upstreams)}"#)
            let lines = StatusScreen.text(report, now: Self.now, usesColour: false).lines
            var top = TopScreen()
            top.update(report)
            let shown = top.lines(.init(columns: 400, rows: 60), now: Self.now, usesColour: false)
            #expect(shown.filter { $0.hasPrefix("HTTP/2") } == lines.filter { $0.hasPrefix("HTTP/2") })
            return lines
        }
        let unused = side(0, 0, 0, (0, 0), #""limits_passed":{}"#)
        let unusedUpstreams = side(0, 0, 0, (0, 0), #""limits_passed":{},"ends":{},"downgraded":[]"#)
        let before = StatusScreen.text(try Self.report(), now: Self.now, usesColour: false).lines
        #expect(try lines(unused, unusedUpstreams) == before)
        let clients = side(1, 1, 4810, (5, 0), #""limits_passed":{"header_list":1,"resets":2}"#)
        let ends = #""limits_passed":{},"ends":{"goaway":2,"ping_timeout":1},"downgraded":["orders","stock"]"#
        let both = try lines(clients, side(0, 0, 4790, (0, 3), ends))
        #expect(both.count == before.count + 2)
        #expect(
            both[6...7] == [
                "HTTP/2 clients: 1 connection, 1 open stream, 4810 so far; resets: peer 5, refused 0; "
                    + "limits passed: header_list 1, resets 2",
                "HTTP/2 upstreams: 0 connections, 0 open streams, 4790 so far; resets: peer 0, refused 3; "
                    + "ends: goaway 2, ping_timeout 1; downgraded to HTTP/1.1: orders, stock",
            ], "\(both)")
        // A client that was ended before its first request.
        let ended = side(0, 0, 0, (0, 0), #""limits_passed":{"malformed":1}"#)
        #expect(try lines(ended, unusedUpstreams)[6].hasSuffix("; limits passed: malformed 1"))
    }

    @Test("an older Lanyard says less, and nothing is made up")
    func older() throws {
        var buffer = SecretBuffer()
        buffer.append(#"{"version":"0.0.9","active_user":null,"users":[]}"#)
        let json = try #require(JSONValue.read(buffer.seal()))
        let report = try #require(StatusReport(json))
        #expect(
            StatusScreen.text(report, now: Self.now, usesColour: false).lines == [
                "ready", "", "lanyard 0.0.9, up 0 s, 0 users, none is active", "",
                "There are no users: lanyard login NAME adds one.",
            ])
    }

    @Test("sessions: the reason, the error with its age and URL, and who does what")
    func sessions() throws {
        #expect(
            Self.first(try Self.report(Self.checks("session:alice", "login_required")))
                == "NOT READY: user alice has no session: the last one has ended; the token expires in 23 min; "
                + "what to do: lanyard login alice")
        let failing = try Self.user(
            #""last_error":"no response (timed out)","failing_since":"2026-11-23T11:57:00.000Z","access_token_expires_at":null"#
        )
        let away = #"""
            "identities":[{"identity":"demo","url":"http://127.0.0.1:7490","reachable":false,"last_success_at":null,
            "last_error":{"at":"2026-11-23T11:59:50.000Z","error":"http://127.0.0.1:7490/x: Connection refused."}}]
            """#
        #expect(
            Self.first(
                try Self.report(Self.checks("session:alice", "identity_unreachable") + "," + away, users: [failing]))
                == "NOT READY: user alice has no valid token, because the identity service does not respond: "
                + "for 3 min: no response (timed out); http://127.0.0.1:7490/x: Connection refused, 10 s ago; "
                + "what to do: check the identity service http://127.0.0.1:7490 and the way to it; Lanyard tries again in 13 min"
        )
        #expect(
            Self.first(try Self.report(Self.checks("session:alice", "refresh_failing", ok: true), users: [failing]))
                .hasPrefix("WARNING: user alice has a valid token that is not renewed: for 3 min: no response"))
        #expect(
            Self.first(try Self.report(Self.checks("session", "no_active_user")))
                == "NOT READY: a route follows the active user, and there is none; what to do: lanyard login NAME, or lanyard "
                + "use NAME for a user that is logged in")
        let refused = try Self.user(#""last_error":"wrong password","action":"operator""#)
        #expect(
            Self.first(try Self.report(users: [refused]))
                == "WARNING: user alice: the operator must act: wrong password; what to do: correct the credential of alice, whose "
                + "file is read again by itself; after a repair or a confirmation of the account: lanyard login alice")
        let slow = try Self.user(#""call":{"kind":"refresh","url":"http://i/session","age_seconds":7}"#)
        #expect(
            Self.first(try Self.report(users: [slow]))
                == "WARNING: user alice: the refresh has had no response of http://i/session for 7 s; what to do: check that "
                + "service and the way to it; the call ends by refresh.attempt_timeout and is made again")
    }

    @Test("routes: an upstream that is away, a breaker, many 5xx, a limit; an old failure says nothing")
    func routes() throws {
        let error =
            #""last_upstream_error":{"at":"2026-11-23T11:59:59.000Z","error":"Connecting failed: Connection refused."}"#
        let counts = #""requests":12,"server_errors":12,"refused":0,"token_refused":0"#
        #expect(
            Self.first(try Self.report(#""routes":[\#(Self.route(recent: counts, error))]"#))
                == "FAILING: route orders: the upstream http://127.0.0.1:9000 fails: Connecting failed: Connection refused "
                + "(1 s ago, 12 of 12 requests got 5xx in 5 min); what to do: repair the upstream or the way to it; or correct "
                + "upstream of the route, and lanyard reload")
        // It has responded since.
        let mended = error.replacing("11:59:59", with: "11:59:57")
        #expect(Self.first(try Self.report(#""routes":[\#(Self.route(mended))]"#)) == "ready")
        #expect(
            Self.first(try Self.report(#""routes":[\#(Self.route(recent: counts, mended))]"#)).hasPrefix(
                "WARNING: route orders: Connecting failed: Connection refused (last 3 s ago, 12 of 12 requests got 5xx in 5 min)"
            ))
        #expect(
            Self.first(try Self.report(#""routes":[\#(Self.route(recent: counts))]"#)).hasPrefix(
                "WARNING: route orders: the upstream or Lanyard responds with 5xx (12 of 12 requests got 5xx in 5 min); what"
            ))
        let old = error.replacing("T11:59:59", with: "T11:50:00") + #","last_response_at":null"#
        #expect(Self.first(try Self.report(#""routes":[\#(Self.route(old))]"#)) == "ready")
        let open = #""breaker_open":true,"breaker_opened_at":"2026-11-23T11:59:40.000Z""#
        let refusals = #""requests":12,"server_errors":0,"refused":0,"token_refused":9"#
        #expect(
            Self.first(try Self.report(#""routes":[\#(Self.route(recent: refusals, open))]"#)).hasPrefix(
                "FAILING: route orders: the upstream http://127.0.0.1:9000 has refused even a fresh token; its refusals pass to "
                    + "the clients, 9 in 5 min; what to do: check the upstream's clock"))
        let limit =
            #""last_overload":{"at":"2026-11-23T11:59:58.000Z","error":"Too many: limits.parked_requests_max is reached."}"#
        #expect(
            Self.first(try Self.report(#""routes":[\#(Self.route(limit))]"#))
                == "FAILING: route orders: requests are refused with 503 overloaded: Too many: limits.parked_requests_max is "
                + "reached (2 s ago); what to do: find out why requests last so long (below), or raise the limit that is named"
        )
    }

    @Test("5xx for want of a token are no finding of the route, unless the line of no user explains the latest one")
    func tokens() throws {
        let missing =
            #""last_token_missing":{"at":"2026-11-23T11:59:59.000Z","error":"There is no access token for route orders."}"#
        let counts = #""requests":12,"server_errors":12,"refused":0,"token_refused":0,"token_missing":12"#
        let route = try Self.route(recent: counts, missing)
        // Its user's line stands for them, and after it a success or a valid session.
        let lines = StatusScreen.text(
            try Self.report(#""routes":[\#(route)],"# + Self.checks("session:alice", "login_required")), now: Self.now,
            usesColour: false
        ).lines
        #expect(lines[0].hasPrefix("NOT READY: user alice") && lines[1].isEmpty, "\(lines)")
        #expect(Self.first(try Self.report(#""routes":[\#(route)]"#)) == "ready")
        // A token of the route, which no check is about.
        let refused = try Self.user(#""tokens":[{"route":"orders","audience":"o","state":"refused"}]"#)
        #expect(
            Self.first(try Self.report(#""routes":[\#(route)]"#, users: [refused])).hasPrefix(
                "FAILING: route orders: There is no access token for route orders (1 s ago); what to do: correct token of"
            ))
        let served = try Self.route(recent: counts, missing + #","last_response_at":"2026-11-23T11:59:59.500Z""#)
        #expect(Self.first(try Self.report(#""routes":[\#(served)]"#, users: [refused])) == "ready")
        // Others count without them.
        let mixed = #""requests":112,"server_errors":18,"refused":0,"token_refused":0,"token_missing":12"#
        #expect(
            Self.first(try Self.report(#""routes":[\#(Self.route(recent: mixed))]"#)).hasPrefix(
                "WARNING: route orders: the upstream or Lanyard responds with 5xx (6 of 100 requests got 5xx in 5 min)")
        )
    }

    @Test("a login in progress: its address and code in place of the command that begins one")
    func login() throws {
        let login =
            #""logins":[{"name":"alice","kind":"device","status":"pending","verification_uri":"https://h/d","user_code":"WD-MJ","#
            + #""verification_uri_complete":null,"expires_at":"2026-11-23T12:09:30.000Z"}]"#
        let lines = StatusScreen.text(
            try Self.report(login + "," + Self.checks("session:alice", "login_required")), now: Self.now,
            usesColour: false
        ).lines
        let instruction = "open https://h/d and enter WD-MJ (ends in 9 min)"
        #expect(
            lines[0]
                == "NOT READY: user alice has no session yet: a login waits for its user; what to do: \(instruction)")
        #expect(lines.contains("login in progress: alice: \(instruction)"), "\(lines)")
        let browser = login.replacing("device", with: "authorization_code")
            .replacing(#""https://h/d""#, with: "null").replacing(#""WD-MJ""#, with: "null")
        let waiting = try Self.user(#""action":"user","last_error":"it has ended""#)
        #expect(
            Self.first(try Self.report(browser, users: [waiting]))
                == "WARNING: user alice has no session yet: a login waits for its user; what to do: complete it in the browser "
                + "that lanyard login has opened (ends in 9 min)")
    }

    @Test("a narrow terminal: no line is longer, no word is cut, and tables become paragraphs")
    func narrow() throws {
        let error =
            #""last_upstream_error":{"at":"2026-11-23T11:59:59.000Z","error":"Connecting failed: Connection refused."}"#
        let report = try Self.report(#""routes":[\#(Self.route(error))]"#)
        let wide = StatusScreen.text(report, now: Self.now, usesColour: false)
        for columns in [40, 60, 80, 110, 130] {
            let narrow = StatusScreen.text(report, now: Self.now, usesColour: false, columns: columns)
            #expect(narrow.lines.allSatisfy { $0.count <= columns }, "\(columns): \(narrow.lines)")
            let words = Set(narrow.lines.flatMap { $0.split(separator: " ") })
            for word in wide.lines.prefix(while: { !$0.isEmpty }).flatMap({ $0.split(separator: " ") }) {
                #expect(words.contains(word), "\(columns): \(word)")
            }
            let coloured = StatusScreen.text(report, now: Self.now, usesColour: true, columns: columns).lines
            #expect(coloured.map { $0.replacing(/\u{1b}\[\d+m/, with: "") } == narrow.lines)
        }
        let lines = StatusScreen.text(report, now: Self.now, usesColour: false, columns: 60).lines
        #expect(
            lines.prefix(4) == [
                "FAILING: route orders: the upstream http://127.0.0.1:9000",
                "  fails: Connecting failed: Connection refused (1 s ago, 0",
                "  of 120 requests got 5xx in 5 min); what to do: repair the",
                "  upstream or the way to it; or correct upstream of the",
            ], "\(lines)")
        #expect(
            lines.contains("USER alice")
                && lines.contains("  state active; session valid; identity demo; token expires"), "\(lines)")
        // The last column alone may be long.
        #expect(StatusScreen.text(report, now: Self.now, usesColour: false, columns: 400).lines == wide.lines)
        #expect(WrappedLine.lines(of: "abcdefghij kl", columns: 4, indent: 1) == ["abcd", " efg", " hij", " kl"])
    }

    @Test("the process: stop, store, clock with its amount, descriptors, reload, certificates")
    func process() throws {
        for (members, line) in [
            (
                #""stopping":{"listeners_closed":true,"client_connections":3,"seconds_left":27}"#,
                "NOT READY: stopping: 3 client connections with a request in flight, 27 s left; what to do: wait for its end, "
                    + "and start it again"
            ),
            (
                #""store_failure":{"path":"/s","since":"2026-11-23T11:55:00.000Z","error":"/s: writing failed; free space"}"#,
                "WARNING: the store cannot be written, for 5 min (since 2026-11-23T11:55:00.000Z): /s: writing failed; sessions "
                    + "are in memory only, and a restart would lose them; what to do: free space"
            ),
            (
                #""clock":{"skew_seconds":-3600.2,"in_step":false},"# + Self.checks("clock", "clock_off"),
                "WARNING: the identity service's clock is 60 min behind this machine's; what to do: set the clock that is "
                    + "wrong: tokens seem to end too early"
            ),
            (
                #""descriptors":{"open":1000,"open_max":1024,"last_shortage_at":null}"#,
                "WARNING: 1000 of 1024 descriptors are open; what to do: raise ulimit -n, or lower limits.connections_max"
            ),
            (
                #""lowered_limit":{"configured":4096,"effective":412,"descriptors_max":1024}"#,
                "WARNING: limits.connections_max is 412 in place of 4096: each connection may need two of the 1024 descriptors; "
                    + "what to do: raise ulimit -n (LimitNOFILE= of systemd), or set limits.connections_max to 412"
            ),
            (
                #""descriptors":{"open":40,"open_max":64,"last_shortage_at":"2026-11-23T11:59:50.000Z"}"#,
                "FAILING: no descriptor was left, 10 s ago; now 40 of 64 descriptors are open; what to do: raise ulimit -n, or "
                    + "lower limits.connections_max"
            ),
            (
                #""failed_reload":{"at":"2026-11-23T10:00:00.000Z","errors":["a:1:2: b; c","d\u001b; e"]}"#,
                "WARNING: the reload of 2 h ago (2026-11-23T10:00:00.000Z) failed, and nothing was changed: a:1:2: b; c; d?; e; "
                    + "what to do: correct the configuration, and lanyard reload"
            ),
            (
                #""expiring_certificates":[{"certificate":"listener a","file":"/c","expires_at":"2026-11-23T11:00:00.000Z"}]"#,
                "FAILING: the certificate of listener a has ended 60 min ago (2026-11-23T11:00:00.000Z); what to do: renew /c, "
                    + "which is read again by itself"
            ),
            (
                #""expiring_certificates":[{"certificate":"route r","file":null,"expires_at":"2026-11-26T12:00:00.000Z"}]"#,
                "WARNING: the certificate of route r ends in 3 d (2026-11-26T12:00:00.000Z); what to do: have its owner renew it"
            ),
            (
                #""slow_calls":[{"identity":"demo","kind":"revocation","url":"http://i/s","age_seconds":9}]"#,
                "WARNING: identity demo: the revocation has had no response of http://i/s for 9 s; what to do: check that "
                    + "service and the way to it; the call ends by refresh.attempt_timeout and is made again"
            ),
        ] {
            #expect(Self.first(try Self.report(members)) == line)
        }
    }

    @Test("the worst comes first, and all others have a line each")
    func order() throws {
        let both =
            #""stopping":{"listeners_closed":false,"client_connections":1,"seconds_left":130},"failed_reload":{"at":"#
            + #""2026-11-23T11:59:00.000Z","errors":["x"]},"# + Self.checks("session:alice", "login_required")
        let lines = StatusScreen.text(try Self.report(both), now: Self.now, usesColour: false).lines
        #expect(lines[0].hasPrefix("NOT READY: stopping: ") && lines[0].hasSuffix(" (2 more below)"))
        #expect(lines[1].hasPrefix("NOT READY: user alice ") && lines[2].hasPrefix("WARNING: the reload of "))
        #expect(lines[3].isEmpty && lines[5].contains("127.0.0.1:7400,"))
        let coloured = StatusScreen.text(try Self.report(both), now: Self.now, usesColour: true).lines
        #expect(coloured[0].hasPrefix("\u{1b}[31mNOT READY") && coloured[2].hasPrefix("\u{1b}[33mWARNING"))
        #expect(
            StatusScreen.text(try Self.report(), now: Self.now, usesColour: true).lines[0] == "\u{1b}[32mready\u{1b}[0m"
        )
    }

    // MARK: lanyard top

    @Test("keys: what a terminal sends")
    func keys() {
        #expect(TopKey.read(Array("r\u{1b}[A\u{1b}OB\t\u{1b}".utf8)) == [.character("r"), .up, .down, .next, .escape])
        #expect(TopKey.read(Array("\u{1b}[1;5Bq".utf8)) == [.down, .character("q")])
        #expect(TopKey.read(Array("\u{1b}[5~".utf8)) == [])
    }

    @Test("top: a chosen user, actions on it, and a route's log")
    func top() throws {
        var screen = TopScreen()
        #expect(screen.press(.character("r")) == nil && screen.press(.next) == nil)
        let bob = try Self.user(#""name":"bob","state":"inactive""#)
        screen.update(try Self.report(users: [try Self.user(""), bob]))
        #expect(screen.press(.character("r")) == .refresh("alice"))
        #expect(screen.press(.down) == nil && screen.press(.down) == nil)
        #expect(screen.press(.character("l")) == .logIn("bob") && screen.press(.character("u")) == .use("bob"))
        #expect(screen.press(.up) == nil && screen.press(.character("u")) == .use("alice"))
        #expect(screen.press(.character("d")) == .setLogLevel("debug"))
        screen.logLevel = "debug"
        #expect(screen.press(.character("d")) == .setLogLevel(""))
        #expect(screen.press(.character("f")) == .follow("orders") && screen.followedRoute == "orders")
        #expect(screen.press(.next) == .follow("orders"))
        screen.logLines = [
            "one", "two\u{1b}[31m",
            #"{"time":"2026-11-23T11:59:58.000Z","level":"info","msg":"request","route":"orders","path":"/a","status":200}"#,
        ]
        let followed = screen.lines(.init(columns: 60, rows: 7), now: Self.now, usesColour: false)
        #expect(
            followed.count == 7 && followed[0] == "ready" && followed[3].hasPrefix("  ")
                && followed[4] == "11:59:58 info request path=/a status=200", "\(followed)")
        #expect(screen.press(.escape) == nil && screen.followedRoute == nil)
        #expect(screen.press(.character("q")) == .quit)
    }

    @Test("top: as many lines as the terminal has, none longer than it is wide, and the user that is chosen stands out")
    func topSize() throws {
        var screen = TopScreen()
        screen.update(try Self.report())
        screen.message = "refresh of alice: done"
        for (columns, rows) in [(40, 10), (200, 30), (10, 3)] {
            let lines = screen.lines(.init(columns: columns, rows: rows), now: Self.now, usesColour: true)
            #expect(lines.count == rows)
            let plain = lines.map { $0.replacing(/\u{1b}\[\d+m/, with: "") }
            #expect(plain.allSatisfy { $0.count <= columns }, "\(plain)")
        }
        let small = screen.lines(.init(columns: 60, rows: 10), now: Self.now, usesColour: false)
        #expect(small[6].wholeMatch(of: /\.\.\. \d+ more lines: enlarge the terminal/) != nil, "\(small)")
        #expect(
            small[7...9] == [
                "refresh of alice: done", "up/down user, r refresh, l log in, u use, d log level, f log",
                "of a route, q quit",
            ], "\(small)")
        let wide = screen.lines(.init(columns: 200, rows: 30), now: Self.now, usesColour: true)
        #expect(wide.contains { $0.hasPrefix("\u{1b}[7malice\u{1b}[0m") }, "\(wide)")
        screen.update(nil)
        #expect(screen.lines(.init(columns: 80, rows: 5), now: Self.now, usesColour: false)[0] == "no Lanyard responds")
    }
}
