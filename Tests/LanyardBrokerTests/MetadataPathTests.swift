import LanyardFoundations
import LanyardRequestPath
import LanyardSettings
import Testing

@testable import LanyardBroker

/// Google Compute Engine's metadata, as clients of tokens ask for it (fleet.md 4).
@Suite struct MetadataPathTests {
    private typealias Bench = BrokerBench
    private static let flavor = [("Metadata-Flavor", "Google")]
    private static let accounts = "/computeMetadata/v1/instance/service-accounts"
    private static let none = BrokerBench.Outcome.refused(404, "no-route", oauth: nil)
    private static let denied = BrokerBench.Outcome.refused(403, "caller-not-allowed", oauth: nil)

    private let bench = Bench(
        [Bench.caller("alice", "bob", uids: [1])], scopes: ["alice": ["read", "write"]])

    private func ask(_ target: String, _ fields: [(String, String)] = MetadataPathTests.flavor, uid: UInt32? = 1)
        -> Bench.Outcome
    {
        bench.outcome(target, fields: fields, uid: uid)
    }

    @Test(
        "texts that are the same for each caller need no row",
        arguments: [
            ("/", "computeMetadata/\n"), ("/computeMetadata/v1", "instance/\nproject/\n"),
            ("/computeMetadata/v1/", "instance/\nproject/\n"), ("/computeMetadata/v1/project/project-id", "lanyard"),
            (accounts, "default/\n"), (accounts + "/", "default/\n"),
        ])
    func texts(_ target: String, _ text: String) {
        #expect(ask(target) == .response(200, text))
    }

    @Test("the default account is the first user of the caller's row; another is named by its address")
    func named() {
        let accounts = Self.accounts
        #expect(ask(accounts + "/default/token") == .token("alice", to: "uid:1", audience: ""))
        for name in ["bob", "bob@lanyard.local", "bob%40lanyard.local"] {
            #expect(ask(accounts + "/\(name)/token") == .token("bob", to: "uid:1", audience: ""), "\(name)")
        }
        #expect(ask(accounts + "/default/email") == .response(200, "alice@lanyard.local"))
        #expect(ask(accounts + "/bob/email") == .response(200, "bob@lanyard.local"))
        #expect(ask(accounts + "/default/scopes") == .response(200, "read\nwrite\n"))
        #expect(ask(accounts + "/default/aliases") == .response(200, "default\n"))
        #expect(ask(accounts + "/default/") == .response(200, "aliases\nemail\nscopes\ntoken\n"))
        #expect(
            ask(accounts + "/default/?recursive=true")
                == .response(
                    200, #"{"aliases":["default"],"email":"alice@lanyard.local","scopes":["read","write"]}"#))
    }

    @Test("another account, or another caller, gets the same words whether the account exists or not")
    func strangers() {
        let refused = Bench.Outcome.refused(403, "caller-not-allowed", oauth: "unauthorized_client")
        for part in ["token", "email", "scopes", ""] {
            #expect(ask(Self.accounts + "/carol@lanyard.local/" + part) == refused)
            #expect(ask(Self.accounts + "/default/" + part, uid: 2) == refused)
            #expect(ask(Self.accounts + "/default/" + part, uid: nil) == refused)
        }
    }

    @Test("what a web page or a forwarding proxy could have sent is refused")
    func forwarded() {
        let token = Self.accounts + "/default/token"
        for fields in [
            [], [("Metadata-Flavor", "Microsoft")], [("Metadata-Flavor", "")], Self.flavor + Self.flavor,
            Self.flavor + [("X-Forwarded-For", "")], Self.flavor + [("x-forwarded-for", "10.0.0.1")],
        ] {
            #expect(ask(token, fields) == Self.denied, "\(fields)")
            #expect(ask("/", fields) == Self.denied, "\(fields)")
        }
        #expect(ask(token, [("metadata-flavor", "google")]) == .token("alice", to: "uid:1", audience: ""))
    }

    @Test(
        "an ID token is a credential, and nothing else is there either",
        arguments: [
            accounts + "/default/identity", accounts + "/default/token/", accounts + "//token",
            accounts + "/default/token/x", accounts + "/default/Token", "/computeMetadata/v1/instance/attributes/",
            "/computemetadata/v1/", "/computeMetadata/v1beta1/", "/computeMetadata/v1/instance/service-accountsx",
        ])
    func nothing(_ target: String) {
        #expect(ask(target) == Self.none)
    }

    @Test("metadata is read alone")
    func methods() {
        #expect(
            bench.post("/", fields: Self.flavor, uid: 1) == .refused(405, "method-not-allowed", oauth: nil))
    }
}
