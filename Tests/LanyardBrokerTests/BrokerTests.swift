import LanyardFoundations
import LanyardRequestPath
import LanyardSettings
import Testing

@testable import LanyardBroker

/// Who may have which token (fleet.md 1, 2).
@Suite struct BrokerTests {
    private typealias Bench = BrokerBench
    private static let refused = BrokerBench.Outcome.refused(
        403, "caller-not-allowed", oauth: "unauthorized_client")
    private static let form = [("Content-Type", "application/x-www-form-urlencoded")]

    @Test("a caller gets the tokens of its row, and the same words for any other user, known or not")
    func rows() {
        let bench = Bench([Bench.caller("alice", uids: [1000]), Bench.caller("bob", "svc", uids: [1001])])
        #expect(bench.outcome("/v1/token?user=alice", uid: 1000) == .token("alice", to: "uid:1000", audience: ""))
        #expect(bench.outcome("/v1/token", uid: 1000) == .token("alice", to: "uid:1000", audience: ""))
        #expect(bench.outcome("/v1/token?user=svc", uid: 1001) == .token("svc", to: "uid:1001", audience: ""))
        #expect(bench.outcome("/v1/token?user=bob", uid: 1000) == Self.refused)
        #expect(bench.outcome("/v1/token?user=none", uid: 1000) == Self.refused)
        #expect(bench.outcome("/v1/token?user=alice", uid: 1002) == Self.refused)
        #expect(bench.outcome("/v1/token?user=alice") == Self.refused)
    }

    @Test("a caller of several users says which one; client_id may name it")
    func several() {
        let bench = Bench([Bench.caller("bob", "svc", uids: [7])])
        #expect(
            bench.outcome("/v1/token", uid: 7) == .refused(400, "malformed-request", oauth: "invalid_request"))
        let body = "grant_type=client_credentials&client_id="
        #expect(
            bench.post("/oauth2/token", fields: Self.form, body: body + "svc", uid: 7)
                == .token("svc", to: "uid:7", audience: ""))
        #expect(
            bench.post("/oauth2/token", fields: Self.form, body: body + "other", uid: 7)
                == .refused(400, "malformed-request", oauth: "invalid_request"))
    }

    @Test("a later row decides where an earlier one of the caller does not have the user")
    func laterRow() {
        let bench = Bench([Bench.caller("alice", uids: [1]), Bench.caller("bob", uids: [1])])
        #expect(bench.outcome("/v1/token?user=bob", uid: 1) == .token("bob", to: "uid:1", audience: ""))
    }

    @Test("a caller that names no user gets no other row's, where its first row cannot decide")
    func noOtherUser() {
        let bench = Bench([
            Bench.caller("svc", uids: [1], audiences: ["https://a", "https://b"]), Bench.caller("alice", uids: [1]),
        ])
        #expect(bench.outcome("/v1/token", uid: 1).refusal == "invalid_target")
        #expect(bench.outcome("/v1/token?user=alice", uid: 1) == .token("alice", to: "uid:1", audience: ""))
    }

    @Test("a row with user ids and a capability asks for both")
    func both() {
        let secret = "0123456789abcdef0123456789abcdef"
        let capability = Array(secret.utf8).withUnsafeBytes { Secret(copying: $0) }
        let bench = Bench([Bench.caller("alice", uids: [5], capability: true)])
        let field = [("Lanyard-Capability", secret)]
        #expect(
            bench.outcome("/v1/token", fields: field, uid: 5, capabilities: [capability])
                == .token("alice", to: "uid:5", audience: ""))
        #expect(bench.outcome("/v1/token", uid: 5, capabilities: [capability]) == Self.refused)
        #expect(bench.outcome("/v1/token", fields: field, uid: 6, capabilities: [capability]) == Self.refused)
        #expect(bench.outcome("/v1/token", fields: field, uid: 5, capabilities: [nil]) == Self.refused)
        #expect(bench.outcome("/v1/token", fields: field, uid: 5) == Self.refused)
        #expect(
            bench.outcome("/v1/token", fields: field + field, uid: 5, capabilities: [capability]) == Self.refused)
    }

    @Test("the capability of a row opens no other row")
    func otherCapability() {
        let texts = ["0123456789abcdef0123456789abcdef", "fedcba9876543210fedcba9876543210"]
        let capabilities = texts.map { text in Array(text.utf8).withUnsafeBytes { Secret(copying: $0) } }
        let bench = Bench([Bench.caller("alice", capability: true), Bench.caller("bob", capability: true)])
        for (index, user) in ["alice", "bob"].enumerated() {
            let field = [("Lanyard-Capability", texts[index])]
            for name in ["alice", "bob"] {
                let outcome = bench.outcome("/v1/token?user=\(name)", fields: field, capabilities: capabilities)
                let granted = Bench.Outcome.token(user, to: "capability:\(index)", audience: "")
                #expect(outcome == (name == user ? granted : Self.refused))
            }
        }
    }

    @Test("the capability may be the client_secret, in the body or as Basic, and in one of them alone")
    func clientSecret() {
        let secret = "0123456789abcdef0123456789abcdef"
        let capability = Array(secret.utf8).withUnsafeBytes { Secret(copying: $0) }
        let bench = Bench([Bench.caller("alice", capability: true)])
        let granted = Bench.Outcome.token("alice", to: "capability:0", audience: "")
        let body = "grant_type=client_credentials"
        func outcome(_ body: String, _ fields: [(String, String)] = []) -> Bench.Outcome {
            bench.post("/oauth2/token", fields: Self.form + fields, body: body, capabilities: [capability])
        }
        #expect(outcome(body + "&client_id=x&client_secret=" + secret) == granted)
        #expect(outcome(body + "&client_secret=" + secret + "x") == Self.refused)
        // "x:0123456789abcdef0123456789abcdef" and "x:wrong".
        let basic = ("Authorization", "Basic eDowMTIzNDU2Nzg5YWJjZGVmMDEyMzQ1Njc4OWFiY2RlZg==")
        #expect(outcome(body, [basic]) == granted)
        #expect(outcome(body, [("Authorization", "Basic eDp3cm9uZw==")]) == Self.refused)
        let malformed = Bench.Outcome.refused(400, "malformed-request", oauth: "invalid_request")
        #expect(outcome(body + "&client_secret=" + secret, [basic]) == malformed)
        #expect(outcome(body, [("Authorization", "Bearer x")]) == malformed)
        #expect(bench.outcome("/v1/token?client_secret=" + secret, capabilities: [capability]) == malformed)
    }

    @Test("audiences of a row are all that it gives, by audience or by resource")
    func audiences() {
        let variants = ["svc": [TokenVariant(audience: "https://a"), TokenVariant(resources: ["https://b"])]]
        let bench = Bench(
            [Bench.caller("svc", uids: [1], audiences: ["https://a", "https://b"])], variants: variants)
        let target = Bench.Outcome.refused(403, "caller-not-allowed", oauth: "invalid_target")
        func outcome(_ query: String) -> Bench.Outcome { bench.outcome("/v1/token?" + query, uid: 1) }
        #expect(outcome("audience=https%3A%2F%2Fa") == .token("svc", to: "uid:1", audience: "audience https://a"))
        #expect(outcome("resource=https://a") == .token("svc", to: "uid:1", audience: "audience https://a"))
        #expect(outcome("audience=https://b") == .token("svc", to: "uid:1", audience: "resource https://b"))
        #expect(outcome("audience=https://c") == target)
        #expect(outcome("resource=https://a&resource=https://c") == target)
        #expect(outcome("").refusal == "invalid_target")
    }

    @Test("a row of one audience gives it unasked; one without audiences gives the plain token and what routes name")
    func defaults() {
        let variants = ["svc": [TokenVariant(audience: "https://a")]]
        let one = Bench([Bench.caller("svc", uids: [1], audiences: ["https://a"])], variants: variants)
        #expect(one.outcome("/v1/token", uid: 1) == .token("svc", to: "uid:1", audience: "audience https://a"))
        let any = Bench([Bench.caller("svc", uids: [1])], variants: variants)
        #expect(any.outcome("/v1/token", uid: 1) == .token("svc", to: "uid:1", audience: ""))
        #expect(
            any.outcome("/v1/token?audience=https://a", uid: 1)
                == .token("svc", to: "uid:1", audience: "audience https://a"))
        #expect(any.outcome("/v1/token?audience=https://z", uid: 1).refusal == "invalid_target")
    }

    @Test("scopes that the plain token has anyway are granted, others are not")
    func scopes() {
        let bench = Bench([Bench.caller("svc", uids: [1])], scopes: ["svc": ["read", "write"]])
        #expect(bench.outcome("/v1/token?scope=read+write", uid: 1) == .token("svc", to: "uid:1", audience: ""))
        #expect(bench.outcome("/v1/token?scope=admin", uid: 1).refusal == "invalid_scope")
        let limited = Bench(
            [Bench.caller("svc", uids: [1], scopes: ["read"])],
            variants: ["svc": [TokenVariant(scopes: ["read"])]], scopes: ["svc": ["read", "write"]])
        #expect(limited.outcome("/v1/token", uid: 1) == .token("svc", to: "uid:1", audience: "scopes read"))
        #expect(limited.outcome("/v1/token?scope=write", uid: 1).refusal == "invalid_scope")
    }

    @Test("the active user is asked for by its name in the row alone")
    func active() {
        let bench = Bench([Bench.caller("active", uids: [1])])
        let carol = bench.names.index(of: "carol")
        #expect(
            bench.outcome("/v1/token?user=active", uid: 1, active: carol)
                == .token("carol", to: "uid:1", audience: ""))
        #expect(bench.outcome("/v1/token?user=carol", uid: 1, active: carol) == Self.refused)
        #expect(bench.outcome("/v1/token", uid: 1) == .refused(503, "no-active-user", oauth: nil))
    }

    @Test("a caller that reports a refusal must be allowed to have the token", arguments: [true, false])
    func reports(isAllowed: Bool) {
        let bench = Bench([Bench.caller("alice", uids: [1])])
        let body = #"{"user":"alice","generation":18446744073709551615,"more":[{}]}"#
        #expect(bench.post("/v1/token/refused", uid: 1) == .body)
        #expect(
            bench.post("/v1/token/refused", body: body, uid: isAllowed ? 1 : 2)
                == (isAllowed ? .report("alice", .max) : Self.refused))
        for body in [
            "{}", "[]", #"{"user":"alice","generation":-1}"#, #"{"user":"alice","generation":1} x"#,
            #"{"user":"alice","generation":"1"}"#, #"{"user":"alice","generation":1.0}"#, #"{"user":"alice"}"#,
            // The refusal of another token would be reported.
            #"{"user":"alice","generation":1,"audience":["a"]}"#, #"{"user":null,"generation":1}"#,
            #"{"user":"alice","user":"alice","generation":1}"#,
        ] {
            #expect(
                bench.post("/v1/token/refused", body: body, uid: 1).refusal == "invalid_request", "\(body)")
        }
    }

    @Test("what it does not serve is not there")
    func serves() {
        let bench = Bench([Bench.caller("alice", uids: [1])], serves: [.token])
        let none = Bench.Outcome.refused(404, "no-route", oauth: nil)
        for target in [
            "/", "/computeMetadata/v1/", "/v1/tokens", "/v1/Token", "/V1/token", "/v1/token/", "//v1/token",
            "/v1/./token", "/v1/%74oken",
        ] {
            #expect(bench.outcome(target, uid: 1) == none, "\(target)")
        }
        #expect(bench.post("/oauth2/token", fields: Self.form, body: "a=b", uid: 1) == none)
        #expect(bench.post("/v1/token", body: "a", uid: 1) == .refused(405, "method-not-allowed", oauth: nil))
    }

    @Test("what is wrong at the token endpoint is told in its form, before there is a body, too")
    func errorForm() {
        let bench = Bench([Bench.caller("alice", uids: [1])])
        #expect(bench.form("/oauth2/token", method: .get, uid: 1) == .oauth)
        #expect(bench.form("/oauth2/token", method: .post, uid: 1) == .oauth)
        #expect(bench.form("/v1/token", method: .post, uid: 1) == .problem)
        #expect(bench.form("/v1/token/refused", method: .post, uid: 1) == .problem)
    }

    @Test("token exchange knows the tokens that the broker gave out, and no others")
    func exchange() {
        let bench = Bench([Bench.caller("alice", "bob", uids: [1]), Bench.caller("svc", uids: [2])])
        let secret = Array("token-of-bob".utf8).withUnsafeBytes { Secret(copying: $0) }
        let token = AccessToken(
            user: UserIndex(1), generation: 1, token: secret, waitsFrom: .never, usableUntil: .never)
        _ = bench.broker.respond(
            to: TokenGrant(of: UserIndex(1), by: .token, to: "uid:1", audience: ""), with: token, of: "bob",
            at: Instant(nanoseconds: 1))
        let body = "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Atoken-exchange&subject_token="
        func outcome(_ token: String, uid: UInt32) -> Bench.Outcome {
            bench.post("/oauth2/token", fields: Self.form, body: body + token, uid: uid)
        }
        #expect(outcome("token-of-bob", uid: 1) == .token("bob", to: "uid:1", audience: ""))
        #expect(outcome("token-of-bo", uid: 1).refusal == "invalid_request")
        // The row has one user: the token is ignored.
        #expect(outcome("token-of-bob", uid: 2) == .token("svc", to: "uid:2", audience: ""))
        #expect(outcome("anything", uid: 2) == .token("svc", to: "uid:2", audience: ""))
    }

    @Test(
        "a form that breaks a rule of RFC 6749 is refused",
        arguments: [
            ("", "invalid_request"), ("grant_type=", "invalid_request"),
            ("grant_type=password&username=a&password=b", "unsupported_grant_type"),
            ("grant_type=client_credentials&grant_type=client_credentials", "invalid_request"),
            ("grant_type=client_credentials&user=a&user=a", "invalid_request"),
            ("grant_type=client_credentials&scope=%", "invalid_request"),
            ("grant_type=client_credentials&user=%ff", "invalid_request"),
        ])
    func forms(body: String, code: String) {
        let bench = Bench([Bench.caller("alice", uids: [1])])
        let outcome = bench.post("/oauth2/token", fields: Self.form, body: body + "&", uid: 1)
        #expect(outcome.refusal == code)
    }
}

extension BrokerBench.Outcome {
    /// The word of a token endpoint for a refusal.
    var refusal: String? { if case .refused(_, _, let code) = self { code } else { nil } }
}
