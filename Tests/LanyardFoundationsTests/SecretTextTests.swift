import Foundation
import TestSupport
import Testing

@testable import LanyardFoundations

/// What editors and other programs add to secrets: what is skipped, and what is named.
@Suite struct SecretTextTests {
    private static func secret(_ text: String) -> Secret { secret(Array(text.utf8)) }
    private static func secret(_ bytes: [UInt8]) -> Secret { bytes.withUnsafeBytes { Secret(copying: $0) } }
    private static func text(_ secret: Secret) -> String { secret.withBytes { String(decoding: $0, as: UTF8.self) } }

    private let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    private func read(_ bytes: [UInt8]) throws -> Result<SecretFile.Content, SecretFile.ReadError> {
        let path = folder.file("secret")
        try Data(bytes).write(to: URL(filePath: path))
        return Result { () throws(SecretFile.ReadError) in try SecretFile.read(path) }
    }

    @Test(
        "of any text a byte order mark and one line end are skipped, and nothing else",
        arguments: [
            ("\u{FEFF}a b", "a b"), ("a b\n", "a b"), ("a b\r\n", "a b"), ("\u{FEFF}a b\r\n", "a b"),
            ("a b\n\n", "a b\n"), ("a b \n", "a b "), ("a b\r", "a b\r"), (" a b", " a b"), ("a\u{FEFF}", "a\u{FEFF}"),
            ("\u{FEFF}\u{FEFF}a", "\u{FEFF}a"), ("\n\n", "\n"),
        ])
    func anyText(_ written: String, _ secret: String) throws {
        let content = try read(Array(written.utf8)).get()
        #expect(Self.text(content.secret) == secret)
        #expect(content.hasByteOrderMark == written.hasPrefix("\u{FEFF}"))
    }

    @Test("a mark or a line end alone is an empty file", arguments: ["", "\n", "\r\n", "\u{FEFF}", "\u{FEFF}\r\n"])
    func empty(_ written: String) throws {
        #expect(throws: SecretFile.ReadError.empty) { try read(Array(written.utf8)).get() }
    }

    @Test(
        "UTF-16 is named, whatever its byte order, and so is UTF-32",
        arguments: [String.Encoding.utf16LittleEndian, .utf16BigEndian, .utf32LittleEndian, .utf32BigEndian])
    func wide(_ encoding: String.Encoding) throws {
        let bytes = Array(try #require("\u{FEFF}secret\r\n".data(using: encoding)))
        #expect(throws: SecretFile.ReadError.unfit(SecretText.wideMessage)) { try read(bytes).get() }
        #expect(SecretFile.ReadError.unfit(SecretText.wideMessage).message(path: "/a").contains("/a is text in UTF-16"))
    }

    @Test(
        "of a token everything around it is skipped",
        arguments: [
            "abc-123", "abc-123\n", "abc-123\r\n\r\n", "\u{FEFF}abc-123", " \t abc-123 \t\n", "abc-123\0",
            "\nabc-123\r",
            "abc-123\u{1A}", "\u{FEFF} abc-123\u{7F}\n\n",
        ])
    func token(_ written: String) {
        let token = SecretText.token(in: Self.secret(written))
        #expect(Self.text(token) == "abc-123")
        #expect(SecretText.finding(in: token, as: .token) == nil)
    }

    @Test(
        "what remains in a token is named",
        arguments: [
            ("abc def", "has a blank at byte 3"), ("abc\ndef", "has more than one line"),
            ("abc\r\ndef", "has more than one line"), ("\"abc\"", "is in quotation marks"),
            ("{\"token\":\"abc\"}", "is JSON"), ("[\"abc\"]", "is JSON"), ("Bearer abc", "begins with the word Bearer"),
            ("TOKEN=abc", "begins with a name and an equals sign"),
            ("a\0b\0c", "has a NUL byte at byte 1, as text in UTF-16 has"),
            ("abc\u{1B}[0m", "has a control character at byte 3"),
            ("abc\u{200B}", "has an invisible character (U+200B) at byte 3"),
            ("abc\u{A0}d", "has an invisible character (U+00A0) at byte 3"),
            ("ab\u{E9}", "has a character at byte 2 that is not ASCII"), ("YWJj", nil), ("YWI=", nil), ("YQ==", nil),
        ])
    func tokenFinding(_ written: String, _ finding: String?) {
        #expect(SecretText.finding(in: SecretText.token(in: Self.secret(written)), as: .token) == finding)
    }

    @Test(
        "what may be part of a password or not is named",
        arguments: [
            ("correct horse", nil), ("Pa\u{DF}wort-\u{65E5}\u{672C}", nil), ("a\"b", nil),
            ("a b ", "ends with a blank"),
            ("\ta", "begins with a blank"), ("a\n", "ends with an empty line"), ("a\r", "ends with a carriage return"),
            ("\na", "begins with an empty line"), ("a\nb", "has more than one line"), ("'a'", "is in quotation marks"),
            ("a\u{FEFF}", "has an invisible character (U+FEFF) at byte 1"),
            ("a\u{2060}b", "has an invisible character (U+2060) at byte 1"),
            ("a\u{7}", "has a control character at byte 1"),
            ("a\0", "has a NUL byte at byte 1, as text in UTF-16 has"),
        ])
    func passwordFinding(_ written: String, _ finding: String?) {
        #expect(SecretText.finding(in: Self.secret(written), as: .any) == finding)
    }

    @Test("a password in another encoding than UTF-8 is named")
    func encoding() {
        let remedy = "and would be sent to no service: save it as UTF-8"
        for (bytes, place) in [([0x61, 0x62, 0xe9], 2), ([0xe9, 0x61, 0x61], 0), ([0x61, 0xc3, 0xa9, 0xff], 3)] {
            let finding = SecretText.finding(in: Self.secret(bytes.map { UInt8($0) }), as: .any)
            #expect(finding == "is not UTF-8 text at byte \(place), \(remedy)")
        }
        #expect(SecretText.finding(in: Self.secret([0x61, 0xc3, 0xa9]), as: .any) == nil)
    }

    @Test("a finding holds no byte of the secret")
    func secrecy() {
        for written in ["hunter2 ", "hunter2\n", "hun ter2", "\"hunter2\"", "hunter2\u{200B}", "{\"hunter2\":1}"] {
            for form in [SecretText.Form.token, .any, .bytes, .document] {
                #expect(SecretText.finding(in: Self.secret(written), as: form)?.contains("unter") != true)
            }
        }
    }

    @Test("the bytes that seal a store stay as they are; a text among them is named")
    func bytes() {
        #expect(SecretText.finding(in: Self.secret("\u{FEFF}key"), as: .bytes) == "begins with a byte order mark")
        #expect(SecretText.finding(in: Self.secret("key\r"), as: .bytes) == "ends with a carriage return")
        #expect(SecretText.finding(in: Self.secret([0xff, 0xfe, 0x41, 0]), as: .bytes) == "is text in UTF-16")
        #expect(SecretText.finding(in: Self.secret([0x41, 0, 0x9c, 0x0a]), as: .bytes) == nil, "random bytes")
        #expect(SecretText.content(of: Self.secret(" key "), as: .bytes).count == 5)
    }

    @Test(
        "a certificate in PEM is found whatever an editor has written around its lines",
        arguments: [
            "\u{FEFF}" + TestCertificate.pem, TestCertificate.pem.replacing("\n", with: "\r"),
            TestCertificate.pem.replacing("\n", with: "\r\n"),
            "    " + TestCertificate.pem.replacing("\n", with: "\n    "),
            "\u{FEFF}" + TestCertificate.pem.replacing("\n", with: "\r\n") + "\u{FEFF}" + TestCertificate.pem,
        ])
    func pem(_ written: String) throws {
        #expect(CertificateFile.hasCertificate(try folder.write("ca.pem", written)))
        let normalized = Self.text(PEMText.normalized(Self.secret(written)))
        #expect(normalized.replacing(TestCertificate.pem, with: "").allSatisfy { $0 == "\n" })
    }

    @Test("a text in PEM that needs nothing stays the same object")
    func pemUnchanged() {
        let secret = Self.secret(TestCertificate.pem)
        #expect(PEMText.normalized(secret) === secret)
    }

    @Test("PEM that no reader finds is named: UTF-16, and line ends as two characters")
    func pemFinding() throws {
        let escaped = try folder.write("escaped.pem", TestCertificate.pem.replacing("\n", with: "\\n"))
        #expect(CertificateFile.finding(escaped)?.contains("\\n") == true)
        let wide = folder.file("wide.pem")
        try #require("\u{FEFF}\(TestCertificate.pem)".data(using: .utf16LittleEndian)).write(to: URL(filePath: wide))
        #expect(CertificateFile.finding(wide) == SecretText.wideMessage)
        #expect(CertificateFile.finding(try folder.write("none.pem", "hunter2")) == nil)
    }
}
