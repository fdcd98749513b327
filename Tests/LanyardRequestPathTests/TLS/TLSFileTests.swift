import LanyardFoundations
import TestSupport
import Testing

@testable import LanyardRequestPath

/// Certificates and keys as they are found in files.
@Suite struct TLSFileTests {
    private func finding(_ chain: String, _ key: String) -> TLSKeyPair.PairError? {
        do {
            _ = try TLSBench.keyPair(chain, key)
            return nil
        } catch { return error as? TLSKeyPair.PairError }
    }

    /// A key that is encrypted in the old way, with nothing in it.
    private static let encryptedRSA = """
        -----BEGIN RSA PRIVATE KEY-----
        Proc-Type: 4,ENCRYPTED
        DEK-Info: AES-256-CBC,00112233445566778899AABBCCDDEEFF

        MAA=
        -----END RSA PRIVATE KEY-----

        """

    private static let issued = TLSBench.authority.issue()

    @Test("a chain and its key are taken in the forms in which tools write them")
    func good() throws {
        let (certificate, key) = (Self.issued.certificate, Self.issued.key)
        #expect(finding(certificate, key) == nil)
        #expect(finding(certificate + TLSBench.authority.pem, key) == nil)
        // One file with both, in any order.
        #expect(finding(key + certificate, key + certificate) == nil)
        #expect(finding("Bag Attributes\n" + certificate.replacing("\n", with: "\r\n"), key) == nil)
        let rsa = TLSBench.authority.issue(key: .rsa(bits: 2048))
        #expect(finding(rsa.certificate, rsa.key) == nil)
        #expect(try TLSBench.keyPair(certificate + TLSBench.authority.pem, key).chain.count == 2)
    }

    @Test("each fault of a file has its own finding, about that file")
    func faults() throws {
        let (certificate, key) = (Self.issued.certificate, Self.issued.key)
        let locked = TLSBench.authority.issue(password: "hunter2")
        let half = { (text: String) in String(text.prefix(text.count / 2)) }
        let cases: [(String, String, TLSKeyPair.PairError)] = [
            ("", key, .chain(.empty)), (certificate, "", .key(.empty)), ("hello\n", key, .chain(.noCertificate)),
            (key, key, .chain(.noCertificate)), (certificate, certificate, .key(.noKey)),
            (certificate, "hello\n", .key(.noKey)), (half(certificate), key, .chain(.damaged)),
            (certificate + half(certificate), key, .chain(.damaged)), (certificate, half(key), .key(.damaged)),
            (certificate.replacing("MII", with: "MIA"), key, .chain(.damaged)),
            (certificate, TLSBench.authority.issue().key, .key(.keyMismatch)),
            (TLSBench.authority.pem + certificate, key, .chain(.leafNotFirst)),
            (locked.certificate, locked.key, .key(.passwordProtected)),
            (
                certificate,
                Self.encryptedRSA,
                .key(.passwordProtected)
            ),
        ]
        for (index, (chain, key, expected)) in cases.enumerated() {
            #expect(finding(chain, key) == expected, "case \(index)")
        }
        for expected: TLSFileError in [.empty, .noCertificate, .noKey, .damaged, .passwordProtected, .keyMismatch] {
            #expect(!expected.message.contains("hunter2"))
        }
    }

    @Test("a key that is too weak is refused when a context is made")
    func weak() throws {
        let weak = TLSBench.authority.issue(key: .rsa(bits: 1024))
        #expect(throws: TLSFileError.tooWeak) { _ = try TLSBench.server(weak) }
        #expect(throws: TLSFileError.tooWeak) { _ = try TLSBench.client(showing: weak) }
    }

    @Test("authorities need a certificate, and no block that is damaged")
    func authorities() throws {
        #expect(throws: TLSFileError.empty) { _ = try TLSBench.authorities("") }
        #expect(throws: TLSFileError.noCertificate) { _ = try TLSBench.authorities(Self.issued.key) }
        #expect(throws: TLSFileError.damaged) {
            _ = try TLSBench.authorities(TLSBench.authority.pem + "-----BEGIN CERTIFICATE-----\nMAA=\n")
        }
        // The same certificate twice is no fault: bundles have such.
        #expect(try TLSBench.authorities(TLSBench.authority.pem + TLSBench.authority.pem).certificates.count == 2)
    }

    @Test("the system's authorities are found and can be read")
    func system() throws {
        let path = try #require(TLSAuthorities.systemFiles.first { CertificateFile.hasCertificate($0) })
        let content = try SecretFile.readWhole(path, bytesMax: 4 << 20)
        let authorities = try content.secret.withBytes { try TLSAuthorities($0) }
        #expect(authorities.certificates.count > 50)
    }

    @Test("a certificate's time is read")
    func times() throws {
        let pair = try TLSBench.keyPair(TLSBench.authority.issue(from: -100, to: 1000))
        #expect(abs(pair.chain.expiresAt.seconds - WallTime.now.seconds - 1000) < 60)
        #expect(abs(pair.chain.validFrom.seconds - WallTime.now.seconds + 100) < 60)
    }

    @Test("a chain is valid while all of its certificates are")
    func chainTimes() throws {
        let leaf = TLSBench.authority.issue(from: -500, to: 5000)
        let other = TLSBench.authority.issue(from: -100, to: 1000)
        let chain = try TLSBench.keyPair(leaf.certificate + other.certificate, leaf.key).chain
        #expect(abs(chain.expiresAt.seconds - WallTime.now.seconds - 1000) < 60)
        #expect(abs(chain.validFrom.seconds - WallTime.now.seconds + 100) < 60)
    }

    @Test(
        "a host is a name or an address",
        arguments: [
            ("api.example.com", true), ("API.example.com.", true), ("127.0.0.1", true), ("::1", true), ("", false),
            (".", false), ("a b", false), ("a\u{0}b", false), ("*.example.com", false), ("a/b", false),
        ])
    func hosts(_ host: String, isHost: Bool) { #expect((TLSServerName(host: host) != nil) == isHost, "\(host)") }
}
