import Glibc
import TestSupport
import Testing

@testable import LanyardFoundations

@Suite struct CertificateFileTests {
    @Test(
        "a file is sound with one certificate or more, whatever stands between them",
        arguments: [
            TestCertificate.pem, "Authority\n=========\n" + TestCertificate.pem + "\n" + TestCertificate.pem,
            TestCertificate.pem.replacing("\n", with: "\r\n"),
            TestCertificate.pem.replacing(" CERTIFICATE", with: " X509 CERTIFICATE"),
            // A key with a passphrase prompts for it nowhere.
            "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMAA=\n-----END ENCRYPTED PRIVATE KEY-----\n" + TestCertificate.pem,
        ])
    func sound(_ text: String) throws {
        let folder = try TemporaryFolder()
        #expect(CertificateFile.hasCertificate(try folder.write("ca.pem", text)))
    }

    @Test(
        "a file without a certificate, or with a damaged one, is not",
        arguments: [
            "", "hunter2\n", "\u{30}\u{82}", "-----BEGIN CERTIFICATE-----\n",
            "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n",
            "-----BEGIN PUBLIC KEY-----\nMAA=\n-----END PUBLIC KEY-----\n",
            TestCertificate.pem.replacing("MIIB", with: "MIIA"),
            TestCertificate.pem + TestCertificate.pem.replacing("-----END", with: "----END"),
        ])
    func unsound(_ text: String) throws {
        let folder = try TemporaryFolder()
        #expect(!CertificateFile.hasCertificate(try folder.write("ca.pem", text)))
    }

    @Test("what is no regular file is not, and is not waited for")
    func irregular() throws {
        let folder = try TemporaryFolder()
        try #require(mkfifo(folder.file("pipe"), 0o600) == 0)
        for path in [folder.path, folder.file("pipe"), folder.file("none"), "/dev/zero"] {
            #expect(!CertificateFile.hasCertificate(path), "\(path)")
        }
    }
}
