import LanyardFoundations
import TestSupport
import Testing

@Suite struct ProxyCredentialTests {
    private static func value(_ text: String) throws -> String {
        try ProxyCredential.value(of: Tokens.secret(text)).withBytes { String(decoding: $0, as: UTF8.self) }
    }

    @Test(
        "user and password become the value of a field, without the line's end",
        arguments: [
            ("Aladdin:open sesame", "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="), ("u:p\n", "Basic dTpw"),
            ("\u{feff}u:p\r\n", "Basic dTpw"), ("u:", "Basic dTo="), ("u:a:b", "Basic dTphOmI="),
            ("u:ä", "Basic dTrDpA=="),
        ])
    func values(_ text: String, _ expected: String) throws {
        #expect(try Self.value(text) == expected)
    }

    @Test(
        "another content is refused with the reason, which has no byte of it",
        arguments: ["hunter2", ":hunter2", "u:hunter2\nmore", "u:hunter2\u{0}", "u:\thunter2"])
    func faults(_ text: String) {
        let error = #expect(throws: SecretFile.ReadError.self) { try Self.value(text) }
        guard case .unfit(let reason)? = error else { return #expect(Bool(false), "\(String(describing: error))") }
        #expect(!reason.contains("hunter2") && reason.contains("user:password"))
    }

    @Test("an empty file and a very long one are refused")
    func sizes() {
        #expect(throws: SecretFile.ReadError.empty) { try Self.value("\n") }
        #expect(throws: SecretFile.ReadError.self) { try Self.value("u:" + String(repeating: "p", count: 5000)) }
    }
}
