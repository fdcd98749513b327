import IdentityTestSupport
import LanyardSettings
import TestSupport
import Testing

@Suite("Identity calls: no secret shows")
struct IdentitySecrecyTests {
    /// Answers that quote what they were sent, and put tokens where none belong.
    static let responses: [RawResponse] = [
        IdentityBench.json(500, #"{"error":"canary-password","error_code":"canary-password"}"#),
        IdentityBench.json(401, #"{"error":"Bearer \#(Tokens.refresh)","error_code":"\#(Tokens.refresh)"}"#),
        IdentityBench.json(200, #"{"access_token":"canary token","user_id":"canary id"}"#),
        IdentityBench.json(200, #"{"access_token":"\#(Tokens.access())","error":"canary"}"#),
        .response(302, "canary", fields: [("Location", "http://canary.invalid/?t=canary"), ("X-T", "canary")]).closing,
        RawResponse.text("canary-not-http\r\ncanary\r\n\r\n").closing,
        RawResponse.text("HTTP/1.1 200 canary\r\nContent-Length: canary\r\n\r\ncanary").closing,
        RawResponse.text("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\ncanary\r\n").closing,
        IdentityBench.json(
            200, #"{"access_token":"\#(Tokens.access())","refresh_token":"\#(Tokens.refresh)","user_id":"u"}"#),
    ]

    @Test(
        "no response, whatever it quotes, brings a secret into a fault, a log line or a printed grant",
        arguments: responses
    )
    func canary(response: RawResponse) async throws {
        let bench = try IdentityBench { request, _ in request.method == "GET" ? nil : response }
        let file = try bench.folder.write("password", "canary-password", mode: 0o644)
        var said: [String] = []
        let login = await bench.login(.emailPassword(email: "a@example.com", password: file))
        let refresh = await bench.refresh()
        for outcome in [login, refresh] {
            dump(outcome, to: &said.appendable)
            said.append("\(outcome)")
        }
        said.append("\(await bench.revoke())")
        said += bench.log.lines
        #expect(!said.isEmpty && said.allSatisfy { !$0.lowercased().contains("canary") })
    }
}

extension [String] {
    /// The array as a stream for `dump`.
    fileprivate var appendable: Stream {
        get { Stream(lines: self) }
        set { self = newValue.lines }
    }

    fileprivate struct Stream: TextOutputStream {
        var lines: [String]
        mutating func write(_ text: String) { lines.append(text) }
    }
}
