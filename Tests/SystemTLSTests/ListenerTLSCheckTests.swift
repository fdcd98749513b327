import Foundation
import TestSupport
import Testing

@testable import SystemTestSupport

/// The files of a listener's TLS as `lanyard check` and the start of `lanyard run` judge them.
@Suite struct ListenerTLSCheckTests {
    private let folder: TemporaryFolder
    private let authority = ListenerTLSBench.authority
    /// How a warning about the listener's chain begins.
    private let listenerPlace = "lanyard.yaml:1:62: listeners[0].tls.certificate_file: a certificate of "

    init() throws {
        folder = try TemporaryFolder()
        try folder.write("token", "t")
        try ListenerTLSBench.write(authority.issue(), to: folder)
    }

    private func lanyard(
        _ command: [String], _ keys: String = "", route: String = "upstream: \"http://127.0.0.1:9\"",
        identity: String = ""
    ) async throws -> (exit: ServerProcess.Exit, errors: [String]) {
        let path = try folder.write(
            "lanyard.yaml",
            """
            listeners: [{address: "127.0.0.1:0", tls: {certificate_file: cert.pem, key_file: key.pem\(keys)}}]
            health: off
            admin: off
            identities: {fixed: {static: {token_file: token}}\(identity)}
            users: {alice: {identity: fixed}}
            routes: [{\(route)}]

            """)
        let process = try ServerProcess("lanyard", command + ["--config", path])
        return (try await process.waitForExit(), process.lines.map(\.text))
    }

    @Test("a chain and its key, in two files or in one: valid")
    func valid() async throws {
        #expect(try await lanyard(["check", "--strict"]) == (.code(0), []))
        let issued = authority.issue()
        try folder.write("key.pem", issued.key + issued.certificate)
        try folder.write("cert.pem", issued.key + issued.certificate + authority.pem)
        #expect(try await lanyard(["check", "--strict"]) == (.code(0), []))
    }

    @Test("what cannot be used: exit 78 with listener, file and remedy, for check and run alike")
    func faults() async throws {
        let issued = authority.issue()
        let other = authority.issue()
        let cases: [(certificate: String, key: String, words: String)] = [
            (
                issued.certificate, other.key,
                "key.pem has a key that does not belong to the certificate; name both files of one pair: openssl x509"
            ),
            (
                authority.pem + issued.certificate, issued.key,
                "cert.pem has the certificate of the key, but not as the first"
            ),
            (
                issued.certificate, authority.issue(password: "x").key,
                "key.pem has a key that is protected by a password"
            ),
            (issued.certificate, issued.certificate, "key.pem has no private key"),
            (issued.certificate, String(issued.key.prefix(100)), "key.pem has a block that is damaged or has no end"),
            (issued.certificate, "", "key.pem is empty"),
        ]
        for (certificate, key, words) in cases {
            try ListenerTLSBench.write(.init(certificate: certificate, key: key), to: folder)
            for command in ["check", "run"] {
                let (exit, errors) = try await lanyard([command])
                #expect(exit == .code(78), "\(words)")
                let line = try #require(errors.last)
                let isOfKey = words.hasPrefix("key.pem")
                let place =
                    "lanyard.yaml:1:\(isOfKey ? 82 : 62): listeners[0].tls.\(isOfKey ? "key" : "certificate")_file: "
                #expect(line.contains(place) && line.contains(words), "\(line)")
            }
        }
    }

    @Test("an expired certificate and one that is not valid yet: a warning with the date, an error with --strict")
    func dates() async throws {
        for (issued, words) in [
            (authority.issue(to: -60), "has expired at 20"), (authority.issue(from: 3600), "is not valid before 20"),
        ] {
            try ListenerTLSBench.write(issued, to: folder)
            let (exit, errors) = try await lanyard(["check"])
            #expect(exit == .code(0))
            #expect(errors.count == 1 && errors[0].contains(listenerPlace), "\(errors)")
            #expect(errors.first?.contains(words) == true, "\(errors)")
            let strict = try await lanyard(["check", "--strict"])
            #expect(strict.exit == .code(78))
            #expect(strict.errors.last == "error: --strict: a warning counts as an error")
        }
    }

    @Test(
        "a later certificate of a chain that has expired, and client certificates of a route and an identity: warnings")
    func chains() async throws {
        let issued = authority.issue()
        let chain = issued.certificate + authority.issue(to: -60).certificate
        try ListenerTLSBench.write(.init(certificate: chain, key: issued.key), to: folder)
        let (exit, errors) = try await lanyard(["check"])
        #expect(exit == .code(0))
        #expect(errors.count == 1 && errors[0].contains(listenerPlace), "\(errors)")
        #expect(errors.first?.contains("has expired at 20") == true, "\(errors)")
        try ListenerTLSBench.write(issued, to: folder)
        let client = authority.issue(purpose: "clientAuth", to: -60)
        try folder.write("client.pem", client.certificate + client.key)
        let route = """
            name: orders, upstream: "https://127.0.0.1:9", tls: {certificate_file: client.pem, key_file: client.pem}
            """
        let ofRoute = try await lanyard(["check"], route: route)
        #expect(ofRoute.exit == .code(0))
        #expect(ofRoute.errors.count == 1, "\(ofRoute.errors)")
        let line = try #require(ofRoute.errors.first)
        #expect(
            line.contains("lanyard.yaml:6:") && line.contains(": routes[0].tls.certificate_file: ")
                && line.contains("client.pem has expired at 20"), "\(line)")
        #expect(try await lanyard(["check", "--strict"], route: route).exit == .code(78))
        let identity = """
            , remote: {oauth2: {issuer: "https://127.0.0.1:9", client_id: one, client_authentication: tls}, \
            tls: {certificate_file: client.pem, key_file: client.pem}}
            """
        try folder.write("ended.pem", authority.issue(to: -60).certificate)
        for (keys, place) in [
            (", client_ca_file: ended.pem", ": listeners[0].tls.client_ca_file: "),
            ("", ": routes[0].tls.ca_file: "),
        ] {
            let route = "upstream: \"https://127.0.0.1:9\", tls: {ca_file: \(keys.isEmpty ? "ended.pem" : "cert.pem")}"
            let ofAuthorities = try await lanyard(["check"], keys, route: route)
            #expect(
                ofAuthorities.errors.contains {
                    $0.contains(place) && $0.contains("ended.pem is valid any more, the last one ended at 20")
                }, "\(ofAuthorities.errors)")
        }
        let ofIdentity = try await lanyard(["check"], identity: identity)
        #expect(ofIdentity.exit == .code(0), "\(ofIdentity.errors)")
        #expect(
            ofIdentity.errors.contains {
                $0.contains("lanyard.yaml:4:") && $0.contains(": identities.remote.tls.certificate_file: ")
                    && $0.contains("client.pem has expired at 20")
            }, "\(ofIdentity.errors)")
    }

    @Test("a key that others can read is a warning; client names that are none are an error")
    func modes() async throws {
        let issued = authority.issue()
        try folder.write("cert.pem", issued.certificate)
        try folder.write("key.pem", issued.key, mode: 0o644)
        let (exit, errors) = try await lanyard(["check"])
        #expect(exit == .code(0))
        #expect(errors.count == 1 && errors[0].contains("every Unix user of this machine can read"), "\(errors)")
        try folder.write("ca.pem", authority.pem)
        let names = try await lanyard(["check"], ", client_ca_file: ca.pem, client_names: [\"IP:orders\"]")
        #expect(names.exit == .code(78))
        #expect(names.errors.last?.contains("client_names") == true)
    }
}
