import TestSupport
import Testing

@testable import LanyardConfiguration
@testable import LanyardSettings

/// `identities.*.lanyard` and the login `broker` there (fleet.md 2).
@Suite struct OtherLanyardConfigurationTests {
    private static func text(
        _ keys: String, login: String = "broker: {user: alice}", identity: String = "", route: String = ""
    ) -> String {
        """
        identities: {central: {lanyard: {\(keys)}\(identity)}}
        users: {svc: {identity: central, login: {\(login)}}}
        routes: [{upstream: "http://127.0.0.1:9000", user: svc\(route)}]

        """
    }

    private static func settings(_ keys: String, identity: String = "") throws -> IdentitySettings.OtherLanyard {
        let loaded = try Loading.load(text(keys, identity: identity), files: ["cap", "ca.pem"]).loaded
        #expect(loaded.diagnostics == [])
        guard case .lanyard(let other)? = loaded.configuration?.identities.first?.kind else {
            throw TestFailure("no lanyard identity: \(loaded.diagnostics)")
        }
        return other
    }

    @Test("an address is a unix socket or a URL, one or a list in its order")
    func addresses() throws {
        #expect(try Self.settings("address: unix:/run/b.sock").addresses == [.unix(path: "/run/b.sock")])
        let list = #"address: ["https://One.example:8443/", "unix:/b", "http://127.0.0.1:7410"]"#
        #expect(
            try Self.settings(list).addresses == [
                .url("https://one.example:8443"), .unix(path: "/b"), .url("http://127.0.0.1:7410"),
            ])
        let plain = try Self.settings(#"address: "http://central.internal""#, identity: ", unsafe_plain: true")
        #expect(plain.addresses == [.url("http://central.internal")])
    }

    @Test("the user, the capability and the TLS of the identity are read; the capability is watched")
    func parts() throws {
        let text = Self.text(
            #"address: "https://central.example", capability_file: cap"#, identity: ", tls: {ca_file: ca.pem}")
        let loaded = try Loading.load(text, files: ["cap", "ca.pem"]).loaded
        #expect(loaded.diagnostics == [])
        let identity = try #require(loaded.configuration?.identities.first)
        guard case .lanyard(let other) = identity.kind else { throw TestFailure("no lanyard identity") }
        #expect(other.capabilityFile?.hasSuffix("/cap") == true && identity.caFile?.hasSuffix("/ca.pem") == true)
        #expect(identity.clientFiles == [other.capabilityFile])
        #expect(identity.url == "https://central.example")
        #expect(loaded.configuration?.users.first?.login == .broker(user: "alice"))
        #expect(loaded.configuration?.users.first?.login?.files == [])
    }

    @Test("routes name audiences and scopes of its users, and brokers give them on")
    func variants() throws {
        let text = Self.text("address: unix:/b", route: ", token: {audience: orders, scopes: [read]}")
        let loaded = try Loading.load(text, files: []).loaded
        #expect(loaded.diagnostics == [])
        let variants = loaded.configuration?.variants["svc"]?.map(\.variant)
        #expect(variants == [TokenVariant(audience: "orders", scopes: ["read"])])
    }

    @Test("a printed configuration has the list of addresses, and is read as the same")
    func printed() throws {
        let loaded = try Loading.load(Self.text("address: unix:/run/b.sock"), files: []).loaded
        let text = loaded.printed
        #expect(text.contains("address: [") && text.contains("unix:/run/b.sock"), "\(text)")
    }

    @Test(
        "each fault has its place and its remedy",
        arguments: [
            ("", "missing key \"identities.central.lanyard.address\"", ""),
            ("address: []", "identities.central.lanyard.address is empty", "name a broker"),
            ("address: {a: b}", "expected a single value or a list of them", ""),
            ("address: unix:b.sock", "is not the path of a socket", "absolute path"),
            ("address: central.example", "no scheme", "begin with http:// or https://"),
            ("address: \"https://u:p@central.example\"", "", "remove"),
            ("address: [unix:/a, unix:/a]", "has unix:/a twice", "keep one"),
            (
                "address: \"http://central.example\"", "plain http would show",
                "unsafe_plain: true to identities.central"
            ),
            ("address: \"https://169.254.169.254\"", "is an address of metadata services", ""),
            (
                "address: [unix:/1, unix:/2, unix:/3, unix:/4, unix:/5, unix:/6, unix:/7, unix:/8, unix:/9]",
                "more than 8 addresses", "name fewer"
            ),
            ("address: unix:/b, capability_file: short", "fewer than 32 characters", "correct the file"),
            ("address: unix:/b, socket: /b", "unknown key \"socket\"", ""),
        ])
    func faults(_ keys: String, _ message: String, _ remedy: String) throws {
        let folder = try TemporaryFolder()
        let short = try folder.write("short", "abc\n")
        let diagnostics = try Loading.load(Self.text(keys.replacing("short", with: short)), files: []).diagnostics
        let fault = try #require(diagnostics.first { $0.contains(message) }, "\(diagnostics)")
        #expect(fault.contains(remedy) && fault.contains(":1:") && !fault.contains("u:p@"), "\(fault)")
    }

    @Test(
        "a login of another kind, and a user without a name, are faults",
        arguments: [
            ("client_credentials: {}", "a lanyard identity has no such login", "use one of broker"),
            ("broker: {}", "missing key \"users.svc.login.broker.user\"", ""),
            ("broker: {user: \"a b\"}", "is not a name of 1 to 64 letters", "choose another name"),
        ])
    func logins(_ login: String, _ message: String, _ remedy: String) throws {
        let diagnostics = try Loading.load(Self.text("address: unix:/b", login: login), files: []).diagnostics
        let fault = try #require(diagnostics.first { $0.contains(message) }, "\(diagnostics)")
        #expect(fault.contains(remedy) && fault.contains(":2:"), "\(fault)")
    }

    @Test("TLS that no address uses is a warning")
    func needless() throws {
        let text = Self.text("address: unix:/b", identity: ", tls: {ca_file: ca.pem}")
        let diagnostics = try Loading.load(text, files: ["ca.pem"]).diagnostics
        #expect(diagnostics.contains { $0.contains("tls is ignored: no address is at https") }, "\(diagnostics)")
    }
}
