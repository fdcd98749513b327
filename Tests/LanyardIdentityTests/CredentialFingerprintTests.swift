import IdentityTestSupport
import TestSupport
import Testing

@testable import LanyardFoundations
@testable import LanyardSessionInterface
@testable import LanyardSettings

@Suite("Identity: the mark of a refused credential")
struct CredentialFingerprintTests {
    private static let key = Tokens.secret("key of the store")
    private static let open = LoginGuard(key: key, refused: nil)

    private static func refusing() throws -> IdentityBench {
        try IdentityBench { _, path in
            path.hasSuffix("/login")
                ? IdentityBench.json(401, #"{"error":"unauthorized","error_code":"InvalidPassword"}"#) : nil
        }
    }

    private static func password(_ text: String, email: String = "a@example.com") -> Credential {
        .given(.emailPassword(email: email, password: Tokens.secret(text)))
    }

    private static func logins(_ bench: IdentityBench) -> Int {
        bench.server.requests.count { $0.target.hasSuffix("/login") }
    }

    @Test("a refusal names the credential, and a guard that knows it answers without a call")
    func remembered() async throws {
        let bench = try Self.refusing()
        let first = try #require(await bench.login(Self.password("wrong"), guarded: Self.open).failure)
        let fingerprint = try #require(first.credential)
        #expect(first.verdict == .credentialRefused && first.code == "InvalidPassword" && fingerprint.bytes.count == 32)
        let armed = LoginGuard(key: Self.key, refused: fingerprint)
        let second = try #require(await bench.login(Self.password("wrong"), guarded: armed).failure)
        #expect(second.verdict == .credentialRefused && second.credential == fingerprint && second.status == nil)
        #expect(second.message.contains("refused before (InvalidPassword)") && Self.logins(bench) == 1)
        #expect(second.code == "InvalidPassword")
        let file = try bench.folder.write("password", "wrong\n")
        let configured = Credential.configured(.emailPassword(email: "a@example.com", password: file))
        let third = try #require(await bench.login(configured, guarded: armed).failure)
        #expect(third.status == nil && Self.logins(bench) == 1)
        #expect(third.message.contains("email_password.password_file \(file)") && third.message.contains("base_url"))
        // A login without the guard's knowledge makes a call.
        _ = await bench.login(Self.password("wrong"), guarded: Self.open)
        #expect(Self.logins(bench) == 2)
    }

    @Test("an account that was not confirmed may be now: its credential is sent again")
    func unconfirmed() async throws {
        let bench = try IdentityBench { _, path in
            path.hasSuffix("/login")
                ? IdentityBench.json(401, #"{"error":"confirmation required","error_code":"AuthError"}"#) : nil
        }
        let first = try #require(await bench.login(Self.password("right"), guarded: Self.open).failure)
        #expect(first.verdict == .credentialRefused && first.code == "AuthError")
        let armed = LoginGuard(key: Self.key, refused: first.credential)
        let second = try #require(await bench.login(Self.password("right"), guarded: armed).failure)
        #expect(second.status == 401 && Self.logins(bench) == 2)
    }

    @Test("another secret, account, kind or key is another mark, wherever the border between account and secret lies")
    func distinct() async throws {
        let bench = try Self.refusing()
        let other = LoginGuard(key: Tokens.secret("another key"), refused: nil)
        let tries: [(Credential, LoginGuard)] = [
            (Self.password("wrong"), Self.open), (Self.password("wrong"), other), (Self.password("Wrong"), Self.open),
            (Self.password("wrong", email: "b@example.com"), Self.open),
            (Self.password("mwrong", email: "a@example.co"), Self.open),
            (.given(.apiKey(Tokens.secret("wrong"))), Self.open),
        ]
        var fingerprints: [[UInt8]] = []
        for (credential, guarded) in tries {
            fingerprints.append(try #require(await bench.login(credential, guarded: guarded).failure?.credential).bytes)
        }
        #expect(Set(fingerprints).count == tries.count)
    }

    @Test("anonymous logins are never marked: there is no account that they could lock")
    func anonymous() async throws {
        let bench = try Self.refusing()
        let error = try #require(await bench.login(.given(.anonymous), guarded: Self.open).failure)
        #expect(error.verdict == .credentialRefused && error.credential == nil)
    }

    @Test("a credential that an operator gives is sent as it is, and one that is no text is blamed on no file")
    func given() async throws {
        let bench = try IdentityBench()
        let credential = Credential.given(.emailPassword(email: "a@b.c", password: Tokens.secret("p\"w")))
        _ = try await bench.login(credential, guarded: nil).get()
        let body = try #require(bench.server.requests.last).bodyText
        #expect(body.contains(#""username":"a@b.c","password":"p\"w""#))
        let bytes = Secret(capacity: 1) { room in
            room[0] = 0xff
            return 1
        }
        let error = try #require(await bench.login(.given(.apiKey(bytes)), guarded: nil).failure)
        #expect(error.verdict == .credentialUnavailable && error.message == "the credential given is not UTF-8 text")
    }

    @Test("HMAC-SHA256 is RFC 4231's")
    func hash() {
        let sum = Array("what do ya want for nothing?".utf8).withUnsafeBytes {
            KeyedHash.sha256($0, key: Tokens.secret("Jefe"))
        }
        #expect(sum.prefix(8) == [0x5b, 0xdc, 0xc1, 0x46, 0xbf, 0x60, 0x75, 0x4e])
    }
}
