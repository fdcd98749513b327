import TestSupport
import Testing

@testable import LanyardFoundations
@testable import LanyardIdentity
@testable import LanyardSessionInterface
@testable import LanyardSettings

/// The scopes that a login grants, and that refreshes ask for again.
@Suite("OAuth: scopes") struct OAuthScopeTests {
    private static func bench(
        _ response: @escaping @Sendable (RawMessage) -> (Int, String),
        scopes: [String] = ["read", "write"]
    ) throws -> OAuthBench {
        try OAuthBench(
            script: { request in
                guard request.target == "/token" else { return nil }
                let (status, body) = response(request)
                return OAuthBench.json(status, body)
            }, settings: { client, _ in client.scopes = scopes })
    }

    private static func token(_ more: String = "") -> (Int, String) {
        (200, #"{"access_token":"a.b.c","token_type":"bearer","expires_in":20,"refresh_token":"r2"\#(more)}"#)
    }

    private static func refresh(_ bench: OAuthBench, _ scopes: [String]) async -> Result<Grant, IdentityError> {
        await bench.settling {
            bench.identity.refresh(
                Tokens.secret(Tokens.refresh), scopes: scopes, progress: CallProgress(.refresh), reply: $0)
        }
    }

    @Test(
        "a login's scopes are those of its response, else those that it has asked for",
        arguments: [
            (#","scope":"read""#, ["read"]), (#","scope":"read  write read""#, ["read", "write"]),
            // GitHub and Slack have commas between them.
            (#","scope":"a,b,c""#, ["a", "b", "c"]), (#","scope":"a, b,,c ""#, ["a", "b", "c"]),
            (#","scope":["a,b","c"]"#, ["a", "b", "c"]),
            // Empty ones state nothing (RFC 6749 §3.3 has one scope at least).
            (#","scope":"""#, ["read", "write"]), (#","scope":" ""#, ["read", "write"]),
            (#","scope":[]"#, ["read", "write"]), (#","scope":["",","]"#, ["read", "write"]),
            (#","scope":["a","b c"]"#, ["a", "b", "c"]), (#","scope":"a\u0020b""#, ["a", "b"]),
            // Those that cannot be read count as missing.
            ("", ["read", "write"]), (#","scope":null"#, ["read", "write"]), (#","scope":7"#, ["read", "write"]),
            (#","scope":["a",7]"#, ["read", "write"]), (#","scope":{"a":1}"#, ["read", "write"]),
            (#","scope":"a\"b""#, ["read", "write"]), (#","scope":"é""#, ["read", "write"]),
            (#","scope":[["a"]]"#, ["read", "write"]),
        ])
    func ofLogin(more: String, expected: [String]) async throws {
        let bench = try Self.bench { _ in Self.token(more) }
        let grant = try await bench.login(.password(username: "a", try bench.folder.write("p", "p"))).get()
        #expect(grant.scopes == Set(expected))
    }

    @Test("a scope that shares letters with a secret is left out alone: what the others say counts")
    func sharedLetters() async throws {
        let bench = try Self.bench { _ in Self.token(#","scope":"read calendar.events mail""#) }
        let file = try bench.folder.write("p", "my-calendar-password")
        #expect(try await bench.login(.password(username: "a", file)).get().scopes == ["read", "mail"])
        // Nothing is left: as if none were stated.
        let other = try Self.bench { _ in Self.token(#","scope":"calendar.events""#) }
        let same = try other.folder.write("p", "my-calendar-password")
        #expect(try await other.login(.password(username: "a", same)).get().scopes == ["read", "write"])
        // A secret with a blank stands in two scopes.
        let split = try Self.bench { _ in Self.token(#","scope":"read my-own pass-word x""#) }
        let blank = try split.folder.write("p", "own pass")
        #expect(try await split.login(.password(username: "a", blank)).get().scopes == ["read"])
    }

    @Test("scopes without an end are not kept, nor one that repeats the password")
    func unkept() async throws {
        let long = String(repeating: "x", count: 1025)
        let many = (0..<900).map { "scope\($0)" }.joined(separator: " ")
        let list = (0..<900).map { #""scope\#($0)""# }.joined(separator: ",")
        for (scope, kept) in [
            (#""\#(long)""#, ["read", "write"]), (#""\#(many)""#, ["read", "write"]), ("[\(list)]", ["read", "write"]),
            (#""read the-password-of-alice""#, ["read"]), (#""the-password-of-alice""#, ["read", "write"]),
        ] {
            let bench = try Self.bench { _ in Self.token(#","scope":\#(scope)"#) }
            let file = try bench.folder.write("p", "the-password-of-alice")
            let grant = try await bench.login(.password(username: "a", file)).get()
            #expect(grant.scopes == Set(kept), "\(scope.prefix(40))")
        }
        let bench = try Self.bench({ _ in Self.token() }, scopes: [long])
        #expect(try await bench.login(.clientCredentials).get().scopes == nil)
    }

    @Test(
        "a refresh asks for the granted scopes, a variant for its own, and a refresh's scopes are those that it states")
    func ofRefresh() async throws {
        let bench = try Self.bench { _ in Self.token() }
        #expect(try await Self.refresh(bench, ["a", "b"]).get().scopes == nil)
        #expect(bench.forms.last?.contains("&scope=a+b") == true)
        _ = try await Self.refresh(bench, []).get()
        #expect(bench.forms.last?.contains("scope=") == false)
        for (variant, expected) in [
            (TokenVariant(resources: ["https://x"]), "scope=a+b&resource"), (TokenVariant(scopes: ["c"]), "scope=c&"),
        ] {
            _ = await bench.settling {
                bench.identity.fetch(
                    variant, by: .refreshToken(Tokens.secret(Tokens.refresh), scopes: ["a", "b"]),
                    progress: CallProgress(.refresh), reply: $0)
            }
            #expect(bench.forms.last?.contains(expected) == true, "\(bench.forms)")
        }
        let stated = try Self.bench { _ in Self.token(#","scope":"a""#) }
        #expect(try await Self.refresh(stated, ["a", "b"]).get().scopes == ["a"])
    }

    @Test(
        "a server that does not take the granted scopes is asked once more without them; a variant's own scopes are not dropped"
    )
    func refusedScopes() async throws {
        let bench = try Self.bench { request in
            request.bodyText.contains("scope=") ? (400, #"{"error":"invalid_scope"}"#) : Self.token(#","scope":"a""#)
        }
        #expect(try await Self.refresh(bench, ["a", "b"]).get().scopes == ["a"])
        #expect(bench.forms.map { $0.contains("scope=") } == [true, false])
        guard case .failure(let error) = await bench.fetch(TokenVariant(scopes: ["c"])) else {
            return #expect(Bool(false))
        }
        #expect(error.verdict == .clientRefused && bench.forms.count == 3)
        // The second refusal is final.
        let refusing = try Self.bench { _ in (400, #"{"error":"invalid_scope"}"#) }
        guard case .failure = await Self.refresh(refusing, ["a"]) else { return #expect(Bool(false)) }
        #expect(refusing.forms.count == 2)
    }

    @Test(
        "each refusal of the request leads to the repetition without them, and the server is known to want none",
        arguments: [
            (400, "invalid_scope"), (403, "insufficient_scope"), (400, "invalid_request"), (401, "invalid_scope"),
            (422, "invalid_request"),
        ])
    func wantsNone(_ status: Int, _ code: String) async throws {
        let bench = try Self.bench { request in
            request.bodyText.contains("scope=") ? (status, #"{"error":"\#(code)"}"#) : Self.token()
        }
        for _ in 0..<3 { _ = try await Self.refresh(bench, ["a", "b"]).get() }
        #expect(bench.forms.map { $0.contains("scope=") } == [true, false, false, false])
        let fetch = await bench.settling {
            bench.identity.fetch(
                TokenVariant(audience: "x"), by: .refreshToken(Tokens.secret(Tokens.refresh), scopes: ["a", "b"]),
                progress: CallProgress(.refresh), reply: $0)
        }
        #expect(fetch.failure == nil && bench.forms.last?.contains("scope=") == false && bench.forms.count == 5)
        // A variant's own scopes are asked for all the same.
        #expect(await bench.fetch(TokenVariant(scopes: ["c"])).failure?.status == status)
        #expect(bench.forms.last?.contains("scope=c") == true)
    }

    @Test("a session that has fewer says nothing of the server: the scopes of the next one are asked for again")
    func narrowedSession() async throws {
        let bench = try Self.bench { request in
            request.bodyText.contains("scope=") ? (400, #"{"error":"invalid_scope"}"#) : Self.token(#","scope":"a""#)
        }
        for _ in 0..<2 { #expect(try await Self.refresh(bench, ["a", "b"]).get().scopes == ["a"]) }
        #expect(bench.forms.map { $0.contains("scope=") } == [true, false, true, false])
    }

    @Test("a response without scope says nothing of other sessions, and its own session is asked for none from then on")
    func ofSession() async throws {
        // The session of `narrow` has fewer scopes than its login has granted. The responses have none.
        let bench = try Self.bench { request in
            let isRefused = request.bodyText.contains("refresh_token=narrow") && request.bodyText.contains("scope=")
            let session = request.bodyText.contains("refresh_token=narrow") ? "narrow" : "whole"
            return isRefused
                ? (400, #"{"error":"invalid_scope"}"#)
                : (200, #"{"access_token":"a.b.c","expires_in":20,"refresh_token":"\#(session)2"}"#)
        }
        for token in ["narrow1", "narrow2", "narrow2", "whole1", "narrow2", "whole2"] {
            _ = try await bench.settling {
                bench.identity.refresh(
                    Tokens.secret(token), scopes: ["a", "b"], progress: CallProgress(.refresh), reply: $0)
            }.get()
        }
        #expect(
            bench.forms.map { $0.contains("scope=") } == [true, false, false, false, true, false, true])
    }

    @Test("each variant's call moves the mark to the token that comes")
    func ofSessionByVariant() async throws {
        let bench = try Self.bench { request in
            request.bodyText.contains("scope=a+b")
                ? (400, #"{"error":"invalid_scope"}"#)
                : (200, #"{"access_token":"a.b.c","expires_in":20,"refresh_token":"r\#(request.bodyText.count)"}"#)
        }
        let first = try await Self.refresh(bench, ["a", "b"]).get()
        let fetch = await bench.settling {
            bench.identity.fetch(
                TokenVariant(scopes: ["c"]),
                by: .refreshToken(first.refreshToken ?? Tokens.secret(""), scopes: ["a", "b"]),
                progress: CallProgress(.refresh), reply: $0)
        }
        let second = try fetch.get()
        _ = try await bench.settling {
            bench.identity.refresh(
                second.refreshToken ?? Tokens.secret(""), scopes: ["a", "b"], progress: CallProgress(.refresh),
                reply: $0)
        }.get()
        #expect(second.refreshToken != first.refreshToken)
        #expect(bench.forms.map { $0.contains("scope=a+b") } == [true, false, false, false])
    }

    @Test("what has nothing to do with scopes is not repeated, nor invalid_request once the server has taken them")
    func notOfScopes() async throws {
        for code in ["invalid_target", "unsupported_grant_type", "invalid_client", "invalid_grant", "something_new"] {
            let bench = try Self.bench { _ in (400, #"{"error":"\#(code)"}"#) }
            _ = await Self.refresh(bench, ["a"])
            #expect(bench.forms.count == 1, "\(code)")
        }
        let count = Guarded(0)
        let bench = try Self.bench { _ in
            count.withLock { count in
                count += 1; return count
            } == 1 ? Self.token() : (400, #"{"error":"invalid_request"}"#)
        }
        _ = try await Self.refresh(bench, ["a"]).get()
        #expect(await Self.refresh(bench, ["a"]).failure?.refusesRefresh == true)
        #expect(bench.forms.count == 2)
        // The scopes are not at fault either if the call fails without them.
        let refusing = try Self.bench { _ in (400, #"{"error":"invalid_request"}"#) }
        for _ in 0..<2 { _ = await Self.refresh(refusing, ["a"]) }
        #expect(refusing.forms.map { $0.contains("scope=") } == [true, false, true, false])
    }
}
