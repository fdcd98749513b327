import LanyardFoundations
import TestSupport
import Testing

@testable import LanyardClient

/// What `lanyard token` reads and prints.
@Suite struct TokenFormTests {
    private static let now = Timestamp.read("2026-11-23T12:00:00.700Z")!

    private static func issued(_ json: String) throws -> IssuedToken {
        try #require(IssuedToken(Tokens.secret(json), requestedAt: now))
    }

    private static func text(_ form: TokenForm, _ json: String) throws -> String {
        Tokens.text(form.text(try issued(json))) ?? ""
    }

    private static let hour = #"{"user":"alice","generation":7,"access_token":"ey.a/b","expires_in":3600}"#
    private static let endless = #"{"access_token":"a\"b\\c"}"#

    @Test("a response: token, user and end; what is no word of visible ASCII is no token")
    func response() throws {
        let hour = try Self.issued(Self.hour)
        #expect(Tokens.text(hour.token) == "ey.a/b" && hour.user == "alice" && hour.expiresIn == 3600)
        #expect(hour.expiry == Self.now + .seconds(3600))
        #expect(try Self.issued(Self.endless).expiry == nil)
        for json in [
            "{}", "[]", "", #"{"access_token":7}"#, #"{"access_token":""}"#, #"{"access_token":"a b"}"#,
            #"{"access_token":"a\nb"}"#, #"{"access_token":"ü"}"#, #"{"tokens":{"access_token":"a"}}"#,
        ] {
            #expect(IssuedToken(Tokens.secret(json), requestedAt: Self.now) == nil, "\(json)")
        }
    }

    @Test("plain and for curl")
    func lines() throws {
        #expect(try Self.text(.plain, Self.hour) == "ey.a/b\n")
        #expect(try Self.text(.header, Self.hour) == "Authorization: Bearer ey.a/b\n")
    }

    @Test("an ExecCredential: the version that was asked for, the end in UTC rounded down; none without an end")
    func execCredential() throws {
        #expect(
            try Self.text(.execCredential(.v1), Self.hour)
                == #"{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"#
                + #""expirationTimestamp":"2026-11-23T13:00:00Z","token":"ey.a/b"}}"# + "\n")
        #expect(
            try Self.text(.execCredential(.v1beta1), Self.endless)
                == #"{"apiVersion":"client.authentication.k8s.io/v1beta1","kind":"ExecCredential","status":{"#
                + #""token":"a\"b\\c"}}"# + "\n")
    }

    @Test("KUBERNETES_EXEC_INFO decides the version; another one is an error that names those that are written")
    func execInfo() throws {
        #expect(try ExecCredentialVersion.asked(nil) == .v1)
        let info =
            #"{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1beta1","spec":{"interactive":true}}"#
        #expect(try ExecCredentialVersion.asked(info) == .v1beta1)
        #expect(try ExecCredentialVersion.asked(info.replacing("v1beta1", with: "v1")) == .v1)
        for (text, part) in [
            (info.replacing("v1beta1", with: "v1alpha1"), "version that this command does not write"),
            ("{}", "no JSON object"), ("", "no JSON object"), ("v1", "no JSON object"),
        ] {
            let error = try #require(throws: InputError.self) { try ExecCredentialVersion.asked(text) }
            #expect(error.message.contains(part) && error.exitCode == 64, "\(text)")
        }
    }

    @Test("git's form: the given user name or oauth2, the token as password, the end in seconds")
    func git() throws {
        let asked = try GitCredentialRequest(Tokens.secret("protocol=https\nhost=git.example:8443\n\n"))
        #expect(asked.scheme == "https" && asked.host == "git.example:8443" && asked.username == nil)
        #expect(
            try Self.text(.gitCredential(username: asked.shownUsername), Self.hour)
                == "username=oauth2\npassword=ey.a/b\npassword_expiry_utc=1795438800\n")
        let named = try GitCredentialRequest(
            Tokens.secret(
                "capability[]=authtype\r\nprotocol=https\r\nusername=x=y\r\nwwwauth[]=Basic\r\n\r\nusername=z"))
        #expect(
            try Self.text(.gitCredential(username: named.shownUsername), Self.endless)
                == "username=x=y\npassword=a\"b\\c\n")
        #expect(try GitCredentialRequest(Tokens.secret("")).shownUsername == "oauth2")
    }

    @Test("an input that is not git's is an error; its bytes are not in the message")
    func notGit() throws {
        for text in ["host\n", "username=a\u{7}b\n", "password", "username=\u{0}\n"] {
            let error = try #require(throws: InputError.self) { try GitCredentialRequest(Tokens.secret(text)) }
            #expect(error.exitCode == 64 && !error.message.contains("\u{7}"))
        }
    }

    @Test(
        "a remote without TLS gets no token, unless it is on this machine",
        arguments: [
            ("http", "git.example", true), ("HTTP", "10.0.0.1:80", true), ("http", "[2001:db8::1]:80", true),
            ("http", "127.0.0.1:8080", false), ("http", "localhost", false), ("http", "[::1]:80", false),
            ("https", "git.example", false), ("", "", false),
        ])
    func plainRemote(_ scheme: String, _ host: String, _ isPlain: Bool) throws {
        let asked = try GitCredentialRequest(Tokens.secret("protocol=\(scheme)\nhost=\(host)\n"))
        #expect(asked.isPlainBeyondLoopback == isPlain)
    }

    @Test("the query of a broker and of the admin API: values are escaped")
    func query() {
        var query = TokenQuery()
        #expect(query.brokerPath == "/v1/token" && query.adminPath(of: "bob") == "/v1/users/bob/token")
        query.user = "bob"
        query.audience = "https://a.example/?x=1&y"
        query.resources = ["urn:a", "urn:b"]
        query.scopes = ["read", "write+more"]
        let rest =
            "audience=https%3a%2f%2fa.example%2f%3fx%3d1%26y&resource=urn%3aa&resource=urn%3ab&scope=read%20write%2bmore"
        #expect(query.brokerPath == "/v1/token?user=bob&" + rest)
        #expect(query.adminPath(of: "bob") == "/v1/users/bob/token?" + rest)
    }

    @Test("a watched token is asked for again when it ends, each minute at least; a failure after 1, 2, 4 … 60 s")
    func schedule() throws {
        for (seconds, delay) in [(2, 2), (45, 45), (3600, 60), (0, 1), (-5, 1)] {
            let issued = try Self.issued(#"{"access_token":"a","expires_in":\#(seconds)}"#)
            #expect(TokenSchedule.delay(after: issued) == .seconds(delay))
        }
        #expect(try TokenSchedule.delay(after: Self.issued(Self.endless)) == .seconds(60))
        let delays = [1, 2, 3, 7, 100].map { TokenSchedule.delay(afterFailures: $0, retryAfter: nil) }
        #expect(delays == [.seconds(1), .seconds(2), .seconds(4), .seconds(60), .seconds(60)])
        #expect(TokenSchedule.delay(afterFailures: 1, retryAfter: 17) == .seconds(17))
        #expect(TokenSchedule.delay(afterFailures: 1, retryAfter: 3600) == .seconds(60))
    }
}
