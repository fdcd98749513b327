import Foundation
import LanyardFoundations
import TestSupport
import Testing

@testable import LanyardIdentity
@testable import LanyardSessionInterface
@testable import LanyardSettings

/// What is known of a refresh after each response: the table of refresh-outcomes.md 9, and which row a response of a server is.
@Suite("OAuth: outcomes of refreshes") struct RefreshOutcomeTests {
    private static let outcomeColumns: [RefreshTokenRotation] = [.none, .auto, .grace, .oneUse]

    /// The rows of the table, without backticks: five cells that say for what, and four outcomes.
    private static func table() throws -> [[String]] {
        let page = try String(contentsOfFile: Products.root + "/docs/reference/refresh-outcomes.md", encoding: .utf8)
        let lines = page.split(separator: "\n").map { $0.drop { $0 == " " } }
        let rows = lines.drop { !$0.hasPrefix("| body sent |") }.prefix { $0.hasPrefix("|") }.dropFirst(2)
        return rows.map { row in
            row.split(separator: "|").map { $0.split(separator: " ").joined(separator: " ").replacing("`", with: "") }
        }
    }

    private static func fits(_ row: [String], _ response: RefreshResponse) -> Bool {
        func isSame(_ cell: String, _ value: Bool) -> Bool { cell == "any" || (cell == "yes") == value }
        let error: [RefreshResponse.StatedError: String] = [.none: "no", .named: "named", .ofServer: "server_error"]
        let statuses = row[4].split(separator: ",").map { $0.drop { $0 == " " } }
        let status = response.status.map(String.init) ?? "-"
        return isSame(row[0], response.isSent) && isSame(row[1], response.status != nil)
            && isSame(row[2], response.isWhole) && (row[3] == "any" || row[3] == error[response.error])
            && statuses.contains { $0 == "any" || $0 == status || $0.hasSuffix("xx") && $0.first == status.first }
    }

    @Test("Rule 9: the table of the page is the program's")
    func page() throws {
        let rows = try Self.table()
        try #require(rows.count > 5 && rows.allSatisfy { $0.count == 9 })
        let statuses: [Int?] = [
            nil, 200, 204, 302, 400, 401, 403, 404, 408, 425, 429, 500, 501, 502, 503, 504, 505, 511, 520, 599,
        ]
        var seen: Set<Int> = []
        for (isSent, isWhole) in [(true, true), (true, false), (false, true), (false, false)] {
            for status in statuses {
                for error in RefreshResponse.StatedError.allCases {
                    let response = RefreshResponse(isSent: isSent, status: status, isWhole: isWhole, error: error)
                    let place = try #require(rows.firstIndex { Self.fits($0, response) }, "\(response)")
                    seen.insert(place)
                    for (column, rotation) in Self.outcomeColumns.enumerated() {
                        let outcome = response.outcome(rotation)
                        #expect(outcome.rawValue == rows[place][5 + column], "\(response) \(rotation)")
                    }
                }
            }
        }
        #expect(seen.count == rows.count, "a row that no response is")
    }

    private static let fiveHundred = #"{"timestamp":"x","status":500,"error":"Internal Server Error"}"#

    /// Each character as JSON may write it.
    private static func escaped(_ text: String) -> String {
        text.utf8.map { "\\u00" + String($0, radix: 16) }.joined()
    }

    /// A status and a body, and what an error is stated by it.
    private static let responses: [(Int, String, OAuthProfile, RefreshResponse.StatedError)] = [
        (200, #"{"ok":false,"error":"ratelimited"}"#, .slack, .named),
        (200, #"{"ok":false,"error":"ratelimited"}"#, .generic, .named),
        (200, #"{"ok":false,"error":"fatal_error"}"#, .generic, .named),
        (200, #"{"error":"bad_refresh_token"}"#, .github, .named),
        (200, #"{"error":"bad_refresh_token"}"#, .generic, .named),
        (200, #"{"error":"Too many requests, try later"}"#, .generic, .named),
        (200, #"{"errorCode":"E0000047"}"#, .okta, .named), (200, #"{"error_code":"something"}"#, .generic, .named),
        (200, #"{"access_token":"a.b.c","error":"x"}"#, .generic, .named),
        (200, #"{"error":"server_error"}"#, .generic, .ofServer),
        // A failure that is stated in another way.
        (200, #"{"ok":false}"#, .generic, .named), (200, #"{"ok":false,"message":"slow"}"#, .generic, .named),
        (200, #"{"success":false}"#, .generic, .named), (200, #"{"error":true,"message":"x"}"#, .generic, .named),
        (200, #"{"error":{"code":"x"}}"#, .generic, .named), (200, #"{"error":["x"]}"#, .generic, .named),
        (200, #"{"error":{"code":429,"message":"quota"}}"#, .generic, .named),
        (200, #"{"error":{"code":429,"status":"RESOURCE_EXHAUSTED"}}"#, .generic, .named),
        (200, #"{"errors":[{"code":"x"}]}"#, .generic, .named), (200, #"{"errors":["x"]}"#, .generic, .named),
        (200, #"{"code":"rate_limited","message":"x"}"#, .generic, .named),
        // What may be a success elsewhere: tokens stand in another place, or cannot be read.
        (200, #"{"code":"ok","message":"done"}"#, .generic, .none),
        (200, #"{"errors":[{"code":"x"}],"data":{"access_token":"a.b.c"}}"#, .generic, .none),
        (200, #"{"ok":false,"user":{"refresh_token":"r"}}"#, .generic, .none),
        (200, #"{"error_code":"x","refreshToken":"r"}"#, .generic, .none),
        (200, #"{"error_code":"x","access_token":"a b"}"#, .generic, .none),
        (200, #"{"success":true}"#, .generic, .none), (200, #"{"errors":[]}"#, .generic, .none),
        (200, #"{"errors":{}}"#, .generic, .none), (200, #"{"error":{"code":429}}"#, .generic, .none),
        (200, #"{"error":{}}"#, .generic, .none), (200, #"{"error":[]}"#, .generic, .none),
        // What the call itself has sent is no token that Lanyard lacks, and a member with nothing in it has none.
        (
            200, #"{"ok":false,"error":"ratelimited","request":{"refresh_token":"\#(Tokens.refresh)"}}"#, .generic,
            .named
        ),
        (
            200, #"{"ok":false,"error":"ratelimited","form":[{"refresh_token":["\#(Tokens.refresh)"]}]}"#, .generic,
            .named
        ),
        (200, #"{"error":{"code":"x","input":{"refreshToken":"\#(Tokens.refresh)"}}}"#, .generic, .named),
        (200, #"{"error_code":"x","refreshToken":"\#(escaped(Tokens.refresh))"}"#, .generic, .named),
        (200, #"{"error_code":"x","refresh_token":["\#(Tokens.refresh)"]}"#, .generic, .named),
        (200, #"{"error_code":"x","access_token":"\#(Tokens.refresh) "}"#, .generic, .none),
        (
            200, #"{"error_code":"x","request":{"refresh_token":"\#(Tokens.refresh)"},"refreshToken":"r3"}"#, .generic,
            .none
        ),
        (
            400, #"{"error":"temporarily_unavailable","request":{"refresh_token":"\#(Tokens.refresh)"}}"#, .generic,
            .named
        ),
        (200, #"{"ok":false,"error":"ratelimited","access_token":false}"#, .generic, .named),
        (200, #"{"ok":false,"error":"ratelimited","refresh_token":0}"#, .generic, .named),
        (200, #"{"ok":false,"error":"ratelimited","access_token":{},"refresh_token":[]}"#, .generic, .named),
        (200, #"{"ok":false,"error":"ratelimited","access_token":"","refresh_token":""}"#, .generic, .named),
        (200, #"{"error_code":"x","access_token":{"value":"","expires_in":0}}"#, .generic, .named),
        (200, #"{"error_code":"x","data":[{"access_token":""},"x"]}"#, .generic, .named),
        (200, #"{"error_code":"x","access_token":{"value":"a.b.c"}}"#, .generic, .none),
        (200, #"{"error_code":"x","refresh_token":[["r"]]}"#, .generic, .none),
        (200, #"{"error_code":"x","data":{"access_token":{"value":"a.b.c"}}}"#, .generic, .none),
        // No name, or no error.
        (200, #"{"error":5}"#, .generic, .none), (200, #"{"error":null}"#, .generic, .none),
        (200, #"{"error":""}"#, .generic, .none), (200, "{}", .generic, .none), (200, "", .generic, .none),
        (200, "<html>", .generic, .none), (200, #"["error"]"#, .generic, .none),
        // Cut off, or followed by something else.
        (200, #"{"ok":false,"error":"ratelimited""#, .slack, .none), (200, #"{"error":"rate"#, .generic, .none),
        (200, #"{"error":"ratelimited"} {"access_token":"a"}"#, .generic, .none),
        (400, #"{"error":"temporarily_unavailable"}"#, .generic, .named), (429, "", .generic, .none),
        (429, #"{"error":"slow_down"}"#, .generic, .named), (503, #"{"error":"slow_down"}"#, .generic, .named),
        (503, "", .generic, .none), (500, #"{"error":"server_error"}"#, .generic, .ofServer),
        (500, fiveHundred, .generic, .none), (500, #"{"error":"internal_error"}"#, .generic, .none),
        (500, #"{"error":"temporarily_unavailable"}"#, .generic, .named), (502, "<html>", .generic, .none),
        (504, #"{"message":"The upstream server is timing out"}"#, .generic, .none),
        (503, #"{"error":"server_error"}"#, .generic, .ofServer), (503, #"{"ok":false}"#, .generic, .none),
        (500, #"{"error":{"code":"x"}}"#, .generic, .none),
        (502, #"{"error":{"status":"UNAVAILABLE"}}"#, .generic, .none),
    ]

    @Test("what a whole response says of an error", arguments: responses)
    func stated(
        _ status: Int, _ body: String, _ profile: OAuthProfile, _ error: RefreshResponse.StatedError
    ) async throws {
        let bench = try OAuthBench(script: { $0.target == "/token" ? OAuthBench.json(status, body) : nil }) {
            client, _ in client.profile = profile
        }
        let failure = try #require(await bench.refresh().failure)
        #expect(failure.refreshResponse == RefreshResponse(status: status, error: error), "\(failure)")
        #expect(await bench.fetch(TokenVariant(audience: "a")).failure?.refreshResponse == failure.refreshResponse)
    }

    @Test(
        "an error with nothing in it beside tokens is none",
        arguments: ["null", "false", "0", #""""#])
    func beside(_ error: String) async throws {
        let body = #"{"ok":true,"error":\#(error),"access_token":"a.b.c","refresh_token":"r2"}"#
        let bench = try OAuthBench(script: { $0.target == "/token" ? OAuthBench.json(200, body) : nil })
        #expect(Tokens.text(try await bench.refresh().get().refreshToken) == "r2")
    }

    @Test(
        "tokens that came are a success, whatever names an error beside them without saying that there is one",
        arguments: [
            #""errors":[{"code":"x"}]"#, #""code":"rate_limited""#, #""success":false"#, #""error_code":"x""#,
            #""message":"x""#, #""errors":"x""#,
        ])
    func success(_ member: String) async throws {
        let body = #"{\#(member),"access_token":"a.b.c","refresh_token":"r2"}"#
        let bench = try OAuthBench(script: { $0.target == "/token" ? OAuthBench.json(200, body) : nil })
        #expect(Tokens.text(try await bench.refresh().get().refreshToken) == "r2")
    }

    @Test(
        "the refresh token beside an error in a 200 is kept, and beside one in another status it is not",
        arguments: [
            #"{"ok":false,"error":"ratelimited","refresh_token":"r2"}"#,
            #"{"error":"invalid_grant","access_token":"a.b.c","refresh_token":"r2"}"#,
            #"{"refresh_token":"r2","error":{"code":5}}"#, #"{"refresh_token":"r2","error":"x""#,
        ])
    func successor(_ body: String) async throws {
        for (status, token) in [(200, "r2"), (400, nil)] as [(Int, String?)] {
            let bench = try OAuthBench(script: { $0.target == "/token" ? OAuthBench.json(status, body) : nil })
            let failure = try #require(await bench.refresh().failure)
            #expect(Tokens.text(failure.unusedRefreshToken) == token, "\(status)")
            guard let grant = Grant(successorIn: failure) else { continue }
            #expect(grant.unusable?.verdict == .transient(retryAfter: nil))
        }
    }

    @Test("Rule 3: Retry-After counts whatever the response is: a doubtful refusal, a page, a success without a token")
    func retryAfterOfOthers() async throws {
        let rows: [(Int, String)] = [
            (400, ""), (401, ""), (400, #"{"error":"too_fast"}"#), (401, #"{"error":"too_fast"}"#), (200, "<html>"),
            (200, ""), (200, "{}"), (200, #"{"token_type":"bearer"}"#), (200, #"{"access_token":"a","expires_in":1}"#),
            (200, #"{"ok":false}"#), (200, #"{"error_code":"x"}"#), (403, ""), (404, ""), (302, ""), (500, ""),
            (502, ""), (504, ""),
        ]
        for (status, body) in rows {
            let bench = try OAuthBench(script: { request in
                request.target == "/token" ? OAuthBench.json(status, body, fields: [("Retry-After", "6")]) : nil
            })
            for error in [
                await bench.refresh().failure, await bench.login(.clientCredentials).failure,
                await bench.fetch(TokenVariant(audience: "a")).failure,
            ] {
                #expect(error?.retryAfter == .seconds(6), "\(status) \(body)")
            }
        }
    }

    @Test("Retry-After counts in a 200, as seconds and as a date")
    func retryAfter() async throws {
        let date = ("Date", "Sat, 28 Nov 2026 12:00:00 GMT")
        for fields in [[("Retry-After", "70")], [date, ("Retry-After", "Sat, 28 Nov 2026 12:01:10 GMT")]] {
            let bench = try OAuthBench(script: { request in
                guard request.target == "/token" else { return nil }
                return OAuthBench.json(200, #"{"ok":false,"error":"ratelimited"}"#, fields: fields)
            })
            #expect(await bench.refresh().failure?.verdict == .transient(retryAfter: .seconds(70)))
        }
    }

    @Test("a response that is torn, too large, or does not come")
    func torn() async throws {
        let body = #"{"ok":false,"error":"ratelimited"}"#
        let large = String(repeating: "x", count: (1 << 20) + 1)
        let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 400\r\n\r\n"
        let rows: [(RawResponse, RefreshResponse, IdentityError.Verdict)] = [
            (.text(head + body).closing, RefreshResponse(status: 200, isWhole: false), .unknownOutcome),
            (.text("").closing, RefreshResponse(status: nil, isWhole: false), .unknownOutcome),
            (OAuthBench.json(400, large), RefreshResponse(status: 400), .transient(retryAfter: nil)),
        ]
        for (response, wanted, verdict) in rows {
            let bench = try OAuthBench(script: { $0.target == "/token" ? response : nil })
            let failure = try #require(await bench.refresh().failure)
            #expect(failure.refreshResponse == wanted && failure.verdict == verdict, "\(failure)")
        }
        let bench = try OAuthBench(settings: { client, _ in client.endpoints.token = "http://127.0.0.1:1/token" })
        let failure = try #require(await bench.refresh().failure)
        #expect(failure.refreshResponse?.isSent == false && failure.verdict == .transient(retryAfter: nil))
    }

    @Test(
        "Rule 12: a refresh is refused by name with a 4xx or a 2xx, unless it says later or blames the client, or is a variant's",
        arguments: [
            (400, #"{"error":"invalid_request"}"#, true), (400, #"{"error":"invalid_scope"}"#, true),
            (403, #"{"error":"something_new"}"#, true), (400, #"{"error":"No such token"}"#, true),
            (401, #"{"error_code":"something_new"}"#, true),
            (400, #"{"error":"invalid_client"}"#, false), (401, #"{"error":"unauthorized_client"}"#, false),
            (400, #"{"error":"temporarily_unavailable"}"#, false), (400, #"{"error":"ratelimited"}"#, false),
            (429, #"{"error":"invalid_request"}"#, false), (408, #"{"error":"x"}"#, false), (400, "", false),
            (400, #"{"message":"x"}"#, false), (403, "<html>", false), (200, #"{"error":"x"}"#, true),
            (200, #"{"error":"bad_refresh_token"}"#, true), (200, #"{"ok":false,"error":"fatal_error"}"#, true),
            (200, #"{"ok":false}"#, true), (200, #"{"error_code":"x"}"#, true),
            (200, #"{"error":{"code":"x"}}"#, true), (400, #"{"error":{"code":"x"}}"#, true),
            (200, #"{"ok":false,"error":"ratelimited"}"#, false), (200, #"{"error":"server_error"}"#, false),
            (200, #"{"error":{"code":"RATE_LIMITED"}}"#, false), (200, #"{"code":"rate_limited"}"#, false),
            (200, #"{"error":"invalid_client"}"#, false), (200, "{}", false), (200, "<html>", false),
            (200, #"{"error":"x","access_token":"a.b.c"}"#, false),
            (500, #"{"error":"invalid_request"}"#, false),
        ])
    func refusedByName(_ status: Int, _ body: String, _ isRefused: Bool) async throws {
        let bench = try OAuthBench(script: { $0.target == "/token" ? OAuthBench.json(status, body) : nil })
        #expect(await bench.refresh().failure?.refusesRefresh == isRefused)
        #expect(await bench.fetch(TokenVariant(audience: "a")).failure?.refusesRefresh == false)
        #expect(await bench.login(.clientCredentials).failure?.refusesRefresh == false)
    }

    @Test("Rule 12: which refusals of a login are of its client; the guard keeps what is stored of them, and says so")
    func ofClient() async throws {
        for (status, code, isOfClient) in [
            (401, "invalid_client", true), (400, "invalid_client", true), (400, "unauthorized_client", true),
            (400, "invalid_grant", false), (400, "invalid_scope", false), (400, "access_denied", false),
            (400, "something_new", false),
        ] {
            let bench = try OAuthBench(script: { request in
                request.target == "/token" ? OAuthBench.json(status, #"{"error":"\#(code)"}"#) : nil
            })
            let key = Tokens.secret("key")
            let error = try #require(
                await bench.login(.clientCredentials, guarded: LoginGuard(key: key, refused: nil)).failure)
            #expect(error.isOfClient == isOfClient, "\(code)")
            guard code == "invalid_client" else { continue }
            var refused = try #require(error.credential)
            refused.clientTries = ClientTries(count: 2, at: WallTime(seconds: 1_800_000_000))
            let again = try #require(
                await bench.login(.clientCredentials, guarded: LoginGuard(key: key, refused: refused)).failure)
            #expect(again.credential == refused && !again.isOfClient && bench.forms.count == 1)
            #expect(again.message.contains("10 s, 1, 5 and 15 minutes"), "\(again.message)")
        }
    }
}
