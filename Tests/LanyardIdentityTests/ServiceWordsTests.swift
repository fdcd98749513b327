import Foundation
import LanyardFoundations
import TestSupport
import Testing

@testable import LanyardIdentity
@testable import LanyardSessionInterface
@testable import LanyardSettings

/// The service's own words of an error: what operators see of them, and that no secret of the call is among them.
@Suite("The service's own words") struct ServiceWordsTests {
    // MARK: What is shown

    struct Row: Sendable, CustomTestStringConvertible {
        let body: String
        let code: String?
        let words: String?
        var testDescription: String { String(body.prefix(70)) }

        init(_ body: String, code: String? = nil, words: String?) {
            (self.body, self.code, self.words) = (body, code, words)
        }
    }

    private static let rows = [
        Row(
            #"{"error":"invalid_grant","error_description":"Token is not active"}"#, code: "invalid_grant",
            words: "Token is not active"),
        Row(#"{"error":"invalid_grant"}"#, code: "invalid_grant", words: nil),
        Row(#"{"error":"invalid_grant","error_description":""}"#, code: "invalid_grant", words: nil),
        Row(#"{"error":"invalid_grant","error_description":17}"#, code: "invalid_grant", words: nil),
        // A code with figures stands nowhere else.
        Row(
            #"{"errorCode":"E0000011","errorSummary":"Invalid token provided"}"#,
            words: "E0000011: Invalid token provided"),
        Row(#"{"error":"E17"}"#, words: "E17"),
        Row(#"{"error":"Realm does not exist"}"#, words: "Realm does not exist"),
        Row(
            #"{"code":400,"error_code":"session_not_found","msg":"Session not found"}"#, code: "session_not_found",
            words: "Session not found"),
        Row(
            #"{"__type":"NotAuthorizedException","message":"Incorrect username or password."}"#,
            words: "NotAuthorizedException: Incorrect username or password."),
        Row(
            #"{"error":{"code":403,"message":"Permission denied","status":"PERMISSION_DENIED"}}"#,
            words: "Permission denied"),
        Row(
            #"{"error":"invalid_request","message":"below","error_description":"above"}"#, code: "invalid_request",
            words: "above"),
        Row(
            #"{"error":"invalid_client","error_description":"AADSTS7000215: Invalid secret. "#
                + #"Trace ID: 11111111-2222-3333-4444-555555555555 at 2026-11-28T12:00:00Z"}"#,
            code: "invalid_client",
            words:
                "AADSTS7000215: Invalid secret. Trace ID: 11111111-2222-3333-4444-555555555555 at 2026-11-28T12:00:00Z"),
        Row(
            #"{"error":"x","error_description":"a \"b\" \\ c\u0007\nd é"}"#, code: "x",
            words: #"a 'b' \\ c\x07\x0ad \xc3\xa9"#),
        // What looks like another call's token.
        Row(
            #"{"error":"x","error_description":"token eyJhbGciOiJSUzI1NiJ9.e30 and abcdef0123456789"}"#, code: "x",
            words: "token [...] and [...]"),
        Row(#"{"error":"x","error_description":"a"#, code: "x", words: nil),
        Row("<html>gateway</html>", words: nil), Row("", words: nil), Row("[]", words: nil),
    ]

    @Test("are shown as printable ASCII with the code that is told nowhere else", arguments: rows)
    func shown(_ row: Row) {
        let body = Tokens.secret(row.body)
        let words = body.withBytes {
            ServiceErrorText.explanation(in: $0, besides: row.code, without: [Tokens.secret("s3cret-s3cret")])
        }
        #expect(words == row.words)
    }

    @Test("are shortened to 200 bytes, and no escape is cut")
    func shortened() throws {
        for fill in 0..<8 {
            let text = String(repeating: "a", count: fill) + String(repeating: " é", count: 200)
            let words = try #require(ServiceErrorText.shown(Tokens.secret(text), without: []))
            #expect(words.utf8.count <= 200 && words.hasSuffix("...") && words.utf8.allSatisfy { 0x20..<0x7f ~= $0 })
            let escapes = words.dropLast(3).split(separator: "\\", omittingEmptySubsequences: false).dropFirst()
            #expect(escapes.allSatisfy { $0.hasPrefix("x") && $0.dropFirst().prefix(2).count == 2 }, "\(words)")
        }
    }

    // MARK: Echoes

    private static func percent(_ text: String) -> String { text.utf8.map { String(format: "%%%02x", $0) }.joined() }

    private static func form(_ text: String) -> String {
        var body = FormBody()
        body.append("x", text)
        return body.seal().withBytes { String(decoding: $0.dropFirst(2), as: UTF8.self) }
    }

    private static func base32(_ text: String) -> String {
        let digits = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567")
        let bits = text.utf8.flatMap { byte in (0..<8).map { byte >> (7 - $0) & 1 } }
        return stride(from: 0, to: bits.count, by: 5).map { start in
            let value = (0..<5).reduce(0) { $0 << 1 | (start + $1 < bits.count ? Int(bits[start + $1]) : 0) }
            return String(digits[value])
        }.joined()
    }

    /// In which forms servers repeat a value. All have eight bytes of it at least.
    static let echoes: [(name: String, write: @Sendable (String) -> String)] = [
        ("as it is", { $0 }), ("in a sentence", { "password '\($0)' is wrong" }), ("of a form", form),
        ("with each byte escaped", percent), ("escaped twice", { form(form($0)) }),
        ("escaped thrice", { form(form(form($0))) }),
        ("escaped as JSON", { String(decoding: (try? JSONEncoder().encode($0)) ?? Data(), as: UTF8.self) }),
        ("with each character escaped", { $0.utf16.map { String(format: "\\u%04X", $0) }.joined() }),
        ("as Python writes bytes", { $0.utf8.map { String(format: "\\x%02x", $0) }.joined() }),
        (
            "as HTML",
            {
                $0.replacing("&", with: "&amp;").replacing("<", with: "&lt;").replacing("\"", with: "&quot;")
                    .replacing("'", with: "&#39;")
            }
        ),
        ("in entities", { $0.unicodeScalars.map { "&#\($0.value);" }.joined() }),
        ("in Base64", { Data($0.utf8).base64EncodedString() }),
        (
            "in Base64 for URLs",
            {
                Data($0.utf8).base64EncodedString().replacing("+", with: "-").replacing("/", with: "_").replacing(
                    "=", with: "")
            }
        ),
        ("in cut Base64", { String(Data($0.utf8).base64EncodedString().dropFirst(2).dropLast(3)) }),
        ("a form in Base64", { Data("grant_type=password&password=\(form($0))&x=1".utf8).base64EncodedString() }),
        ("in hexadecimal digits", { $0.utf8.map { String(format: "%02x", $0) }.joined() }),
        ("in capitals", { $0.uppercased() }), ("backwards", { String($0.reversed()) }),
        ("letter by letter", { $0.map(String.init).joined(separator: " ") }),
        ("in pairs of digits", { $0.utf8.map { String(format: "%02x", $0) }.joined(separator: " ") }),
        ("in pairs of digits with colons", { $0.utf8.map { String(format: "%02X", $0) }.joined(separator: ":") }),
        ("in Base32", base32), ("in small and cut Base32", { String(base32($0).lowercased().dropFirst(3)) }),
        ("its beginning", { String(decoding: $0.utf8.prefix(8), as: UTF8.self) }),
        ("its end", { "..." + String(decoding: $0.utf8.suffix(8), as: UTF8.self) }),
        ("its middle", { "[" + String(decoding: $0.utf8.dropFirst(3).prefix(8), as: UTF8.self) + "]" }),
    ]

    @Test("with a secret of the call are left out as a whole, in whatever form", arguments: echoes.map(\.name))
    func echoed(_ name: String) throws {
        let write = try #require(Self.echoes.first { $0.name == name }).write
        for value in [
            "pa ss&word+<9>/\"x'=%41\\", "xoxb-0123456789-abcdefghij", "a.b-c_d~e+f/g==hijklmn",
            "correct horse battery",
        ] {
            let secrets = [Tokens.secret("another-one-entirely"), Tokens.secret(value)]
            let text = "The value is " + write(value) + ", it seems"
            #expect(ServiceErrorText.shown(Tokens.secret(text), without: secrets) == nil, "\(text)")
            #expect(ServiceErrorText.shown(Tokens.secret("The value is wrong, it seems"), without: secrets) != nil)
        }
    }

    @Test("with a short secret are left out, too; too many bytes of secrets or of text count as an echo")
    func limits() {
        for text in ["bad pw1!", "bad%20PW1%21", "bad cHcxIQ=="] {
            #expect(ServiceErrorText.shown(Tokens.secret(text), without: [Tokens.secret("pw1!")]) == nil, "\(text)")
        }
        let long = Tokens.secret(String(repeating: "x", count: 300 << 10))
        #expect(ServiceErrorText.shown(Tokens.secret("wrong"), without: [long]) == nil)
        #expect(ServiceErrorText.shown(Tokens.secret(String(repeating: "y z", count: 30 << 10)), without: []) == nil)
    }

    // MARK: Each call

    private static let secretFields: Set<String> = [
        "password", "refresh_token", "assertion", "subject_token", "actor_token", "client_secret", "client_assertion",
        "device_code", "code", "code_verifier",
    ]

    /// What an echoing server does.
    private final class Echo: Sendable {
        let turn = Guarded(0)
        /// The name of the field that was echoed last.
        let field = Guarded("")
        /// How many fields the latest call had.
        let fields = Guarded(1)
    }

    /// A server that refuses each call, and echoes one field of the form or of the head.
    private static func bench(
        _ settings: (inout IdentitySettings.OAuth, TemporaryFolder) throws -> Void
    ) throws -> (OAuthBench, Echo) {
        let echo = Echo()
        let bench = try OAuthBench(
            script: { request in
                guard request.target == "/token" else { return nil }
                var fields = request.bodyText.split(separator: "&").map { field -> (String, String) in
                    let parts = field.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(
                        String.init)
                    return (parts[0], parts[1].replacing("+", with: " ").removingPercentEncoding ?? "")
                }
                fields += request.values("Authorization").map { ("Authorization", $0) }
                fields += request.values("X-Key").map { ("X-Key", $0) }
                let number = echo.turn.withLock { turn in
                    defer { turn += 1 }
                    return turn
                }
                echo.fields.withLock { [count = fields.count] in $0 = count }
                let (name, value) = fields[number % fields.count]
                echo.field.withLock { $0 = name }
                let quoted = String(
                    decoding: (try? JSONEncoder().encode("\(value) echoed-here")) ?? Data(), as: UTF8.self)
                return OAuthBench.json(400, #"{"error":"invalid_grant","error_description":\#(quoted)}"#)
            }, settings: settings)
        return (bench, echo)
    }

    @Test("of a server that echoes each field have no secret, for each grant and each proof of the client")
    func eachField() async throws {
        let proofs: [(inout IdentitySettings.OAuth, TemporaryFolder) throws -> Void] = [
            { _, _ in }, { $0.authentication = .post(secretFile: try $1.write("s", "client-word-77")) },
            { $0.authentication = .basic(secretFile: try $1.write("s", "client-word-77"), isRaw: false) },
            { $0.authentication = .assertion(file: try $1.write("a", "x.client-assertion.z"), type: "urn:t") },
            { client, _ in
                client.authentication = .privateKeyJWT(ClientKey(file: try SignedGrantTests.keys.folder.file("ec")))
            },
            { $0.tokenFields = [.init("X-Key", .file(try $1.write("k", "key-of-the-head")))] },
        ]
        for (number, change) in proofs.enumerated() {
            let (bench, echo) = try Self.bench(change)
            var logins: [UserSettings.Login?] = [nil, .clientCredentials]
            if number == 1 {
                logins += [
                    .password(username: "alice-the-first", try bench.folder.write("p", "pass word-88")),
                    .refreshToken(try bench.folder.write("r", "refresh-it-99")),
                    .jwtBearer(assertion: try bench.folder.write("j", "j.assertion.z")),
                    .tokenExchange(subjectToken: try bench.folder.write("t", "subject-token-1")),
                ]
            }
            for login in logins {
                echo.turn.withLock { $0 = 0 }
                repeat {
                    let result = if let login { await bench.login(login) } else { await bench.refresh() }
                    let error = try #require(result.failure)
                    let name = echo.field.withLock { $0 }
                    let isSecret = Self.secretFields.contains(name) || ["Authorization", "X-Key"].contains(name)
                    #expect((error.serviceText == nil) == isSecret, "\(number) \(name): \(error.operatorMessage)")
                    #expect(!error.message.contains("echoed-here"), "in the log: \(error.message)")
                } while echo.turn.withLock { $0 } < echo.fields.withLock { $0 }
            }
        }
    }

    @Test("of App Services are its `error`")
    func appServices() {
        let body = SecretBuffer.sealed(
            #"{"error":"invalid username/password","error_code":"InvalidPassword","link":"x"}"#)
        let text = body.withBytes { ServiceErrorText.read($0, without: [Tokens.secret("hunter22")]) }
        #expect(text == "invalid username/password")
        #expect(body.withBytes { ServiceErrorText.read($0, without: [Tokens.secret("username/")]) } == nil)
    }
}

extension SecretBuffer {
    fileprivate static func sealed(_ text: String) -> Secret {
        var buffer = SecretBuffer()
        buffer.append(text)
        return buffer.seal()
    }
}
