import TestSupport
import Testing

@testable import LanyardConfiguration
@testable import LanyardSettings

/// What is wrong with a configuration, said in one line with file, line, column and remedy.
@Suite struct ConfigurationErrorTests {
    private func check(_ document: String, _ diagnostics: [String]) throws {
        let (loaded, found) = try Loading.load(document, files: ["token", "ca.pem"])
        #expect(found == diagnostics)
        let hasCertificate = diagnostics.allSatisfy { $0.hasPrefix("warning: ") }
        #expect(loaded.exitCode == (hasCertificate ? nil : 78))
        #expect((loaded.configuration != nil) == hasCertificate)
        #expect(!found.joined().contains("hunter2"))
    }

    @Test("an unknown, misspelt or missing key is told with the name that was meant", arguments: FaultCases.keys)
    func keys(_ document: String, _ diagnostics: [String]) throws { try check(document, diagnostics) }

    @Test("a value of the wrong kind is told with what was wanted", arguments: FaultCases.shapes)
    func shapes(_ document: String, _ diagnostics: [String]) throws { try check(document, diagnostics) }

    @Test("a route that could not mean what it says is refused", arguments: FaultCases.routes)
    func routes(_ document: String, _ diagnostics: [String]) throws { try check(document, diagnostics) }

    @Test("a listener that would let others in, or could not be bound, is refused", arguments: FaultCases.listeners)
    func listeners(_ document: String, _ diagnostics: [String]) throws { try check(document, diagnostics) }

    @Test("identities and users that do not fit together are refused", arguments: FaultCases.accounts)
    func accounts(_ document: String, _ diagnostics: [String]) throws { try check(document, diagnostics) }

    @Test("keys of the store that contradict one another are refused", arguments: FaultCases.store)
    func store(_ document: String, _ diagnostics: [String]) throws { try check(document, diagnostics) }

    @Test("a systemd credential is the store's key, by the folder that systemd names")
    func storeCredential() throws {
        let folder = try TemporaryFolder()
        try folder.write("k", "secret")
        let document = FaultCases.whole + "store: {path: /var/lib/s, passphrase_credential: k}\n"
        let (loaded, diagnostics) = try Loading.load(document, environment: ["CREDENTIALS_DIRECTORY": folder.path])
        #expect(diagnostics == [])
        #expect(loaded.configuration?.store == .file(path: "/var/lib/s", sealedBy: .passphrase(folder.file("k"))))
    }

    @Test("what an operator should know is a warning, and Lanyard starts", arguments: FaultCases.warnings)
    func warnings(_ document: String, _ diagnostics: [String]) throws { try check(document, diagnostics) }

    @Test("what can never work, since nothing can bring the user, is refused", arguments: FaultCases.missingUsers)
    func missingUsers(_ document: String, _ diagnostics: [String]) throws { try check(document, diagnostics) }

    @Test("a key that would guard nothing where it stands is not passed over", arguments: FaultCases.ignored)
    func ignored(_ document: String, _ diagnostics: [String]) throws { try check(document, diagnostics) }

    @Test("a user that the store may hold is a warning even without the admin API")
    func storedUser() throws {
        let document = FaultCases.whole + "    user: zoe\nadmin: off\nstore: {path: s, key_file: token}\n"
        #expect(
            try Loading.diagnostics(document) == [
                "warning: lanyard.yaml:8:11: routes[0].user: no user \"zoe\" is configured; requests get 503 until it exists"
            ])
    }

    @Test(
        "TLS of an upstream: what has no effect, what belongs together, what is dangerous",
        arguments: FaultCases.upstreamTLS)
    func upstreamTLS(_ document: String, _ diagnostics: [String]) throws { try check(document, diagnostics) }

    @Test(
        "what is not in this version is a fault if it guards, else a warning, and its default is nothing",
        arguments: FaultCases.unbuilt)
    func unbuilt(_ document: String, _ diagnostics: [String]) throws { try check(document, diagnostics) }

    @Test(
        "whatever a text holds, a fault is one line, and nothing that a terminal obeys",
        arguments: [
            #"listeners: [{address: "unix:\n"}]"#, #"listeners: [{address: "unix:/a\nb"}]"#,
            #"listeners: [{address: "a\eb"}]"#, #"store: {path: /x, key_file: "/no\nsuch\e[31m"}"#,
            #"store: {path: "/x\u009by", key_file: "/no\u009bsuch\u2028"}"#, #""un\nknown": 1"#,
            #"on_active_logout: "\u0085\x7F""#,
        ])
    func oneLine(_ text: String) throws {
        let (_, diagnostics) = try Loading.load(FaultCases.whole + text + "\n")
        #expect(!diagnostics.isEmpty)
        for error in diagnostics {
            let isPlain = error.unicodeScalars.allSatisfy {
                $0.value >= 32 && !(127...159).contains($0.value) && $0.value != 0x2028
            }
            #expect(isPlain, "\(error.debugDescription)")
        }
    }

    @Test("all that is wrong is said at once, in the order of the lines")
    func atOnce() throws {
        let document = """
            listeners:
              - address: 0.0.0.0:7400
            usrs: {}
            identities:
              demo: {app_services: {app_id: a, base_url: http://127.0.0.1:1, base_url: x}}
            users:
              alice: {identity: dmo}
            routes:
              - upstream: http://bob:hunter2@127.0.0.1:1
                timeouts: {connect: 5}
            limits: &l {connections_max: many}
            sandbox: require

            """
        let lines = try Loading.diagnostics(document).map { $0.split(separator: ":")[1] }
        #expect(lines == ["2", "2", "3", "5", "7", "9", "10", "11", "11", "12"])
    }

    @Test("a secret file without a byte is a warning")
    func emptySecret() throws {
        let folder = try TemporaryFolder()
        let token = try folder.write("token", "")
        let loaded = Configuration.load(
            arguments: ["--upstream", "http://127.0.0.1:1", "--token-file", token], environment: [:])
        #expect(
            loaded.diagnostics.map(\.description) == [
                "--token-file: identities.default.static.token_file: \(token) is empty; its user is refused until the secret is "
                    + "written into it"
            ])
        #expect(loaded.configuration != nil)
    }

    @Test("a secret that everybody can read is a warning; one that cannot be read by us waits")
    func secretModes() throws {
        let folder = try TemporaryFolder()
        let token = try folder.write("token", "t", mode: 0o644)
        let arguments = ["--upstream", "http://127.0.0.1:1", "--token-file", token]
        let loaded = Configuration.load(arguments: arguments, environment: [:])
        #expect(
            loaded.diagnostics.map(\.description) == [
                "--token-file: identities.default.static.token_file: every Unix user of this machine can read \(token); chmod o-rwx it"
            ])
        #expect(loaded.configuration != nil)
        let aFolder = ["--upstream", "http://127.0.0.1:1", "--token-file", folder.path]
        let second = Configuration.load(arguments: aFolder, environment: [:])
        #expect(second.warnings.map(\.message) == ["identities.default.static.token_file: \(folder.path) is a folder"])
    }

    @Test(
        "a configuration file that is missing, a folder or endless is one clear fault",
        arguments: [
            ("/nonexistent/lanyard.yaml", "cannot read the configuration file: No such file or directory"),
            ("/tmp", "cannot read the configuration file: Is a directory"),
            ("/dev/zero", "larger than 16MiB"),
        ])
    func unreadable(_ path: String, _ message: String) {
        let loaded = Configuration.load(arguments: ["--config", path], environment: [:])
        #expect(loaded.diagnostics.map(\.message) == [message])
        #expect(loaded.diagnostics.first?.place == .wholeFile(path: path))
        #expect(loaded.exitCode == 78)
    }
}
