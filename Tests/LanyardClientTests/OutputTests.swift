import LanyardFoundations
import TestSupport
import Testing

@testable import LanyardClient

/// What commands print for operators.
@Suite struct OutputTests {
    private static let now = Timestamp.read("2026-11-23T12:00:00.000Z")!

    private static func report(_ json: String) throws -> JSONValue {
        var buffer = SecretBuffer()
        buffer.append(json)
        return try #require(JSONValue.read(buffer.seal()))
    }

    private static let status = """
        {"version":"0.1.0","uptime_seconds":7500,"active_user":"alice",
         "listeners":[{"listener":"data","address":"127.0.0.1:7400"},{"listener":"admin","address":"unix:/a"}],
         "users":[
          {"name":"alice","identity":"demo","user_id":"65f0","state":"active","session":"valid","generation":7,
           "access_token_expires_at":"2026-11-23T12:23:10.000Z","refresh_token_expires_at":"2027-01-22T11:00:00.000Z",
           "next_refresh_at":"2026-11-23T12:13:00.000Z","last_error":null},
          {"name":"bob","identity":"demo","user_id":null,"state":"logged_out","session":"login_required","generation":2,
           "access_token_expires_at":null,"refresh_token_expires_at":null,"next_refresh_at":null,
           "failing_since":"2026-11-23T11:56:00.000Z","action":"user",
           "last_error":"the refresh token\\u001b[31m was refused"},
          {"name":"carol","identity":"demo","user_id":"1","state":"inactive","session":"unreachable","generation":2,
           "access_token_expires_at":"2026-11-23T11:58:00.000Z","refresh_token_expires_at":"2026-11-23T11:00:00.000Z",
           "next_refresh_at":"2026-11-23T12:00:00.000Z","last_error":"timed out"},
          {"name":"robot","identity":"fixed","user_id":null,"state":"inactive","session":"valid","generation":1,
           "access_token_expires_at":null,"refresh_token_expires_at":null,"next_refresh_at":null,"last_error":null}]}
        """

    @Test("the table of users: fixed columns, relative times, no control character of an error")
    func users() throws {
        let users = UserReport.list(try Self.report(Self.status))
        #expect(
            UserTable.text(users, now: Self.now, usesColour: false).lines == [
                "USER   STATE       SESSION         IDENTITY  TOKEN              SESSION ENDS  NEXT REFRESH  MUST ACT  LAST ERROR",
                "alice  active      valid           demo      expires in 23 min  in 59 d       in 13 min     nobody    -",
                "bob    logged_out  login_required  demo      -                  -             -             user      "
                    + "for 4 min: the refresh token?[31m was refused",
                "carol  inactive    unreachable     demo      expired 2 min ago  ended         now           nobody    timed out",
                "robot  inactive    valid           fixed     no expiry          -             -             nobody    -",
            ])
        let coloured = UserTable.text(users, now: Self.now, usesColour: true).lines
        #expect(coloured[1].hasPrefix("alice  \u{1b}[32mactive\u{1b}[0m      \u{1b}[32mvalid\u{1b}[0m           demo"))
        #expect(coloured[2].contains("\u{1b}[31mlogged_out\u{1b}[0m  \u{1b}[31mlogin_required\u{1b}[0m  demo"))
        #expect(
            UserTable.text([], now: Self.now, usesColour: true).lines == [
                "There are no users: lanyard login NAME adds one."
            ]
        )
        #expect(
            UserTable.text([], choosesUsers: true, now: Self.now, usesColour: true).lines == [
                "No user is chosen by these options."
            ])
    }

    @Test("the process: who is active, where it listens, routes that verify nothing")
    func process() throws {
        func lines(_ json: String) throws -> [String] {
            StatusScreen.process(try #require(StatusReport(try Self.report(json))), now: Self.now).lines
        }
        #expect(
            try lines(Self.status) == [
                "lanyard 0.1.0, up 2 h, 4 users, alice is active", "listening: data 127.0.0.1:7400, admin unix:/a",
            ])
        #expect(
            try lines(#"{"version":"1","active_user":null,"unverified_routes":["a","b"],"users":[]}"#) == [
                "lanyard 1, up 0 s, 0 users, none is active", "not verified (unsafe_skip_verify): a, b",
            ])
        #expect(
            try lines(Self.status.replacing(#""active_user":"alice""#, with: #""active_user":"bob""#))[0]
                == "lanyard 0.1.0, up 2 h, 4 users, bob is active, but not logged in")
        #expect(
            try lines(
                #"{"version":"1","stopping":{"listeners_closed":true,"client_connections":1,"seconds_left":25},"#
                    + #""listeners":[{"listener":"data","address":"a"},{"listener":"health","address":"h"}]}"#)[1]
                == "listening: data a (closed), health h")
        #expect(StatusReport(try Self.report("[]")) == nil)
    }

    @Test(
        "spans of time",
        arguments: [
            (-1, "0 s"), (0, "0 s"), (99, "99 s"), (100, "1 min"), (1439, "23 min"), (5999, "99 min"), (6000, "1 h"),
            (47 * 3600, "47 h"), (48 * 3600, "2 d"), (60 * 86_400, "60 d"),
        ])
    func spans(_ seconds: Int, _ text: String) { #expect(RelativeTime.text(seconds: seconds) == text) }

    @Test("JSON is indented, keeps its numbers, and no control character reaches the terminal")
    func layout() throws {
        let value = try Self.report(#"{"a":[1.50,{}, []],"b":"x\u009b\n\"","c":null}"#)
        #expect(
            JSONLayout.text(value).lines.joined(separator: "\n") == """
                {
                  "a": [
                    1.50,
                    {},
                    []
                  ],
                  "b": "x\\u009b\\n\\"",
                  "c": null
                }
                """)
    }

    @Test(
        "a refused credential: after a repair or a confirmation of the account the login is the next step; of a new user with its flags"
    )
    func refusedCredential() {
        #expect(ReadinessRemedy.text("credential_refused", user: "bob")?.hasSuffix(": lanyard login bob") == true)
        // Without its flags the command would name a user that does not exist yet.
        // Only Lanyard knows the kind of the identity.
        #expect(ReceivedProblem.remedy("not-supported", user: "bob")?.contains("static") == false)
        #expect(ReceivedProblem.remedy("credential-refused", user: "bob")?.hasSuffix(": repeat the command") == true)
    }

    @Test("a problem: its parts, its exit code, and what to do")
    func problem() throws {
        func problem(_ json: String, retryAfter: Int? = nil) -> ReceivedProblem? {
            var buffer = SecretBuffer()
            buffer.append(json)
            return ReceivedProblem(
                HTTPResponse(
                    status: 422, contentType: "application/problem+json", retryAfter: retryAfter, body: buffer.seal()))
        }
        let refused = problem(
            #"{"type":"urn:lanyard:problem:credential-refused","title":"Credential refused","detail":"d.","error_code":"X"}"#
        )
        #expect(refused?.exitCode == 77 && refused?.errorCode == "X" && refused?.remedy != nil)
        let unreachable = problem(
            #"{"type":"urn:lanyard:problem:identity-unreachable","title":"t","user":"bob"}"#, retryAfter: 3)
        #expect(unreachable?.exitCode == 1 && unreachable?.remedy.hasSuffix("; repeat the command in 3 s") == true)
        let unknown = problem(#"{"type":"urn:lanyard:problem:no-active-user","title":"t"}"#)
        #expect(unknown?.remedy == ReceivedProblem.unknownRemedy)
        #expect(problem(#"{"type":"about:blank","title":"t"}"#) == nil && problem("x") == nil)
    }
}
