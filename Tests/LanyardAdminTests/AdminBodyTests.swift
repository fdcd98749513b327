import LanyardSettings
import Testing

@testable import LanyardAdmin
@testable import LanyardFoundations
@testable import LanyardSessionInterface

/// The bodies of admin calls: what they may be, and what each bad one is told.
@Suite struct AdminBodyTests {
    private static func newUser(_ text: String) throws -> AdminBody.NewUser {
        try Array(text.utf8).withUnsafeBytes { try AdminBody.newUser($0) }
    }

    private static func login(_ text: String) throws -> LoginMethod<Secret>? {
        try Array(text.utf8).withUnsafeBytes { try AdminBody.login($0).credential }
    }

    private static func text(_ secret: Secret) -> String { secret.withBytes { String(decoding: $0, as: UTF8.self) } }

    /// The fault in words.
    private static func words(_ work: () throws -> some Any) -> String {
        do {
            _ = try work()
            return "fine"
        } catch AdminBody.ReadError.malformed(let error) {
            return "malformed: \(error.kind) at \(error.offset)"
        } catch AdminBody.ReadError.invalid(let words) {
            return words
        } catch {
            return "\(error)"
        }
    }

    @Test("a new user has a name, an identity and one credential with its values inline")
    func newUser() throws {
        let one = try Self.newUser(
            #"{"name":"bob","identity":"demo","credential":{"email_password":{"email":"b@x","password":"p\u00e4\"ss"}}}"#
        )
        #expect((one.name, one.identity) == ("bob", "demo"))
        #expect((one.credential.kind, one.credential.account) == (.emailPassword, "b@x"))
        #expect(one.credential.secret.map(Self.text) == "pä\"ss")
        let two = try Self.newUser(
            #" { "credential" : { "api_key" : { "key" : "k" } } , "identity" : "demo" , "name" : "A.b_c-9" } "#)
        #expect(two.credential.kind == .apiKey && two.credential.secret.map(Self.text) == "k")
        let three = try Self.newUser(#"{"name":"k","identity":"demo","credential":{"anonymous":{}}}"#)
        #expect(three.credential.provider == "anonymous")
    }

    @Test(
        "a login without a credential means the configured one: no body, or none in it", arguments: ["", "{}", " {} "])
    func configured(_ text: String) throws { #expect(try Self.login(text) == nil) }

    @Test("a login may bring a credential")
    func given() throws {
        let credential = try Self.login(#"{"credential":{"email_password":{"password":"p","email":"e"}}}"#)
        #expect(credential?.provider == "email_password")
    }

    @Test(
        "what is not one JSON text is malformed, wherever the fault lies",
        arguments: [
            ("{", "malformed: endsEarly at 1"), ("{}{}", "malformed: grammar at 2"), ("nonsense", "malformed: grammar"),
            (#"{"name":"a","name":"b"}"#, "malformed: duplicateKey at 12"),
            (#"{"unknown":1,"credential":{"a":1,"a":1}}"#, "malformed: duplicateKey at 33"),
            (#"{"unknown":1,}"#, "malformed: grammar at 13"),
            ("{\"name\":\"\u{1}\"}", "malformed: characters at 9"),
            ("\u{feff}{}", "malformed: grammar at 0"),
            (#"{"credential":"# + String(repeating: "[", count: 120), "malformed: tooDeep at 117"),
        ])
    func malformed(_ text: String, _ words: String) {
        #expect(Self.words { try Self.newUser(text) }.hasPrefix(words))
        #expect(Self.words { try Self.login(text) }.hasPrefix(words))
    }

    private static let knownKinds = LoginKind.providers.joined(separator: ", ")

    @Test(
        "JSON that is not what the call takes is told by its member",
        arguments: [
            ("", "name is missing"), ("{}", "name is missing"), ("[]", "the body is not a JSON object"),
            ("null", "the body is not a JSON object"), (#"{"name":1}"#, "name is not a string"),
            (#"{"name":""}"#, "name is empty"), (#"{"name":"a/b"}"#, "name is not one of [A-Za-z0-9._-]{1,64}"),
            (#"{"name":"ä"}"#, "name is not one of [A-Za-z0-9._-]{1,64}"),
            (#"{"name":""# + String(repeating: "a", count: 65) + #""}"#, "name is longer than 64 bytes"),
            (#"{"name":"a","nmae":"b"}"#, "unknown key nmae"), (#"{"name":"a"}"#, "identity is missing"),
            (#"{"name":"a","identity":"i"}"#, "credential is missing"),
            (#"{"name":"a","identity":null}"#, "identity is not a string"),
            (#"{"credential":null}"#, "credential is not an object"),
            (#"{"credential":"secret"}"#, "credential is not an object"),
            (
                #"{"credential":{}}"#,
                "credential has no kind of login; known: \(knownKinds)"
            ),
            (
                #"{"credential":{"ldap":{}}}"#, "credential.ldap is not a kind of login; known: \(knownKinds)"
            ),
            (#"{"credential":{"anonymous":{},"api_key":{"key":"k"}}}"#, "credential has more than one kind of login"),
            (#"{"credential":{"anonymous":null}}"#, "credential.anonymous is not an object"),
            (#"{"credential":{"anonymous":{"x":1}}}"#, "unknown key credential.anonymous.x"),
            (#"{"credential":{"api_key":"k"}}"#, "credential.api_key is not an object"),
            (#"{"credential":{"api_key":{}}}"#, "credential.api_key.key is missing"),
            (#"{"credential":{"api_key":{"key":""}}}"#, "credential.api_key.key is empty"),
            (#"{"credential":{"api_key":{"key":7}}}"#, "credential.api_key.key is not a string"),
            (#"{"credential":{"api_key":{"key":"k","key_file":"/x"}}}"#, "unknown key credential.api_key.key_file"),
            (#"{"credential":{"email_password":{"email":"e"}}}"#, "credential.email_password.password is missing"),
            (#"{"credential":{"email_password":{"password":"p"}}}"#, "credential.email_password.email is missing"),
            (
                #"{"credential":{"email_password":{"email":"e","password":["p"]}}}"#,
                "credential.email_password.password is not a string"
            ),
            (#"{"credential":{"function":{}}}"#, "credential.function.payload is missing"),
            (#"{"credential":{"function":{"payload":[1]}}}"#, "credential.function.payload is not an object"),
            (#"{"credential":{"function":{"payload":"{}"}}}"#, "credential.function.payload is not an object"),
            (#"{"credential":{"function":{"payload":{},"x":1}}}"#, "unknown key credential.function.x"),
            (#"{"credential":{"jwt":{}}}"#, "credential.jwt.token is missing"),
            (#"{"credential":{"jwt":{"token":{}}}}"#, "credential.jwt.token is not a string"),
            (#"{"credential":{"facebook":{"token":"t"}}}"#, "unknown key credential.facebook.token"),
            (#"{"credential":{"google":{}}}"#, "credential.google.id_token or auth_code is missing"),
            (
                #"{"credential":{"google":{"id_token":"a","auth_code":"b"}}}"#,
                "credential.google has both id_token and auth_code"
            ),
            (#"{"credential":{"apple":{"id_token":""}}}"#, "credential.apple.id_token is empty"),
            (
                #"{"credential":{"api_key":{"key":""# + String(repeating: "k", count: 65537) + #""}}}"#,
                "credential.api_key.key is longer than 65536 bytes"
            ),
            (
                #"{"credential":{"jwt":{"token":""# + String(repeating: "k", count: 1_000_001) + #""}}}"#,
                "credential.jwt.token is longer than 1000000 bytes"
            ),
        ])
    func invalid(_ text: String, _ words: String) { #expect(Self.words { try Self.newUser(text) } == words) }

    @Test(
        "each kind of login has its value inline, and a payload keeps its bytes",
        arguments: [
            (#"{"jwt":{"token":"a.b.c"}}"#, "jwt", "a.b.c"), (#"{"facebook":{"access_token":"t"}}"#, "facebook", "t"),
            (#"{"google":{"id_token":"a.b.c"}}"#, "google", "a.b.c"),
            (#"{"google":{"auth_code":"4\/0A"}}"#, "google", "4/0A"),
            (#"{"apple":{"id_token":"a.b.c"}}"#, "apple", "a.b.c"),
            (
                #"{"function" : {"payload" : { "n": {"$numberInt":"1"}, "a": [ 1.50, "ä\u00e4" ] } } }"#, "function",
                #"{ "n": {"$numberInt":"1"}, "a": [ 1.50, "ä\u00e4" ] }"#
            ),
            (#"{"function":{"payload":{}}}"#, "function", "{}"),
        ])
    func kinds(_ credential: String, _ provider: String, _ secret: String) throws {
        let given = try #require(try Self.login(#"{"credential":"# + credential + "}"))
        #expect(given.provider == provider)
        #expect(given.secret.map(Self.text) == secret)
        if let name = given.kind.secretName { #expect(credential.contains(name)) }
    }

    @Test("a payload of 100 levels and a JWT of a million characters are taken")
    func large() throws {
        let deep = #"{"a":"# + String(repeating: "[", count: 99) + String(repeating: "]", count: 99) + "}"
        #expect(try Self.login(#"{"credential":{"function":{"payload":"# + deep + "}}}")?.secret.map(Self.text) == deep)
        let long = String(repeating: "x", count: 1_000_000)
        #expect(try Self.login(#"{"credential":{"jwt":{"token":""# + long + #""}}}"#)?.secret?.count == 1_000_000)
    }

    @Test("a call that takes nothing takes no body, or an empty object")
    func nothing() {
        func words(_ text: String) -> String {
            Self.words { try Array(text.utf8).withUnsafeBytes { try AdminBody.nothing($0) } }
        }
        #expect(words("") == "fine")
        #expect(words("{}") == "fine")
        #expect(words(#"{"force":true}"#) == "unknown key force")
        #expect(words("true") == "the body is not a JSON object")
        #expect(words("{") == "malformed: endsEarly at 1")
    }

    @Test(
        "a redirect URI is a loopback address with a port",
        arguments: [
            ("http://127.0.0.1:8765/callback", true), ("http://[::1]:1/cb?x=1", true), ("http://localhost:65535", true),
            ("http://127.0.0.1:/cb", false), ("http://127.0.0.1:0/cb", false), ("http://127.0.0.1:65536/cb", false),
            ("http://127.0.0.1:+80/cb", false), ("http://127.0.0.1:80.evil.example/", false),
            ("http://127.0.0.1:80@evil.example/", false), ("http://127.0.0.1/cb", false),
            ("https://127.0.0.1:8765/cb", false), ("http://[::1]:8765/#x", false), ("http://127.0.0.1:80\\x", false),
        ])
    func redirectURI(_ uri: String, _ isTaken: Bool) throws {
        let body = Array(#"{"redirect_uri":"\#(uri.replacing("\\", with: "\\\\"))"}"#.utf8)
        let read = body.withUnsafeBytes { bytes in try? AdminBody.login(bytes).redirectURI }
        #expect((read == uri) == isTaken)
    }
}
