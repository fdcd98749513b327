import LanyardRequestPath
import TestSupport
import Testing

/// `WWW-Authenticate` as RFC 9110 §11.6.1 has it, and what is no such thing.
@Suite struct ChallengeReaderTests {
    /// The elements as words, or nil if the value is no list of challenges.
    private static func read(_ value: [UInt8], continued: Bool = false) -> [String]? {
        value.withUnsafeBufferPointer { bytes in
            var reader = ChallengeReader(bytes, continued: continued)
            var words: [String] = []
            do throws(HeadError) {
                while let element = try reader.next() {
                    switch element {
                    case .scheme(let name): words.append(text(name))
                    case .token68(let token): words.append("68:" + text(token))
                    case .parameter(let name, let value):
                        let quote = value.isQuoted ? "'" : ""
                        words.append("\(text(name))=\(quote)\(text(value.raw))\(quote)")
                    }
                }
            } catch {
                return nil
            }
            return words
        }
    }

    private static func read(_ value: String, continued: Bool = false) -> [String]? {
        read(Array(value.utf8), continued: continued)
    }

    private static func text(_ bytes: Bytes) -> String { String(decoding: bytes, as: UTF8.self) }

    @Test(
        "challenges, parameters and token68 are told apart by what follows a word",
        arguments: [
            ("", []), (" \t", []), (", ,,", []), ("Bearer", ["Bearer"]), ("Bearer ", ["Bearer"]),
            ("Bearer, Basic", ["Bearer", "Basic"]),
            ("Bearer realm=\"a\"", ["Bearer", "realm='a'"]),
            ("Bearer realm = \"a\" , error\t=\tx", ["Bearer", "realm='a'", "error=x"]),
            ("Bearer   ,  error=x", ["Bearer", "error=x"]),
            ("Negotiate YWJj==", ["Negotiate", "68:YWJj=="]), ("Negotiate a=", ["Negotiate", "68:a="]),
            ("Negotiate a-._~+/9, Bearer error=e", ["Negotiate", "68:a-._~+/9", "Bearer", "error=e"]),
            ("Bearer realm", ["Bearer", "68:realm"]),
            ("Bearer a=b, Basic c=\"d\", e=f", ["Bearer", "a=b", "Basic", "c='d'", "e=f"]),
            (
                "Newauth realm=\"apps, x\", type=1, title=\"Login to \\\"apps\\\"\", Basic realm=\"simple\"",
                ["Newauth", "realm='apps, x'", "type=1", "title='Login to \\\"apps\\\"'", "Basic", "realm='simple'"]
            ),
            ("Bearer a=\"\"", ["Bearer", "a=''"]), ("Bearer a=\"\\\\\"", ["Bearer", "a='\\\\'"]),
            (",Bearer,,a=b,,", ["Bearer", "a=b"]),
        ] as [(String, [String])])
    func lists(_ value: String, _ expected: [String]) { #expect(Self.read(value) == expected) }

    @Test(
        "what is no list of challenges is a fault and never more",
        arguments: [
            "=", "a=b", "error=\"x\"", "\"Bearer\"", "Bearer=x", "Bearer \"x\"", "Bearer a=\"", "Bearer a=\"\\",
            "Bearer a=\"\\\"", "Bearer a=\"b\" c", "Bearer a=b c=d", "Bearer a=b;c=d", "Bearer a==b", "Bearer =b",
            "Bearer a=\"b\"\"c\"", "Bearer a=b\"c\"", "Bearer abc, error=x", "Bearer abc def", "Bearer{}",
            "Bearer a=(x)",
            "Bearer a=\"\u{1}\"", "Bearer a=\"\\\u{7f}\"", "Bearer(error=x)", "Bearer a, b=c",
        ])
    func faults(_ value: String) { #expect(Self.read(value) == nil) }

    @Test("a parameter may continue where the field before has ended, and nowhere else")
    func continued() {
        #expect(Self.read("error=x, Basic", continued: true) == ["error=x", "Basic"])
        #expect(Self.read("error=x, Basic") == nil)
    }

    @Test("an escaped value is compared without its escapes and without case, a token as it is")
    func values() {
        func value(_ raw: String, quoted: Bool = true) -> Bool {
            Array(raw.utf8).withUnsafeBufferPointer {
                ChallengeValue(raw: $0, isQuoted: quoted).equals(lowered: "invalid_token")
            }
        }
        #expect(value("invalid_token") && value("Invalid_TOKEN") && value("\\i\\nvalid\\_token"))
        #expect(value("invalid_token", quoted: false) && !value("\\invalid_token", quoted: false))
        for other in ["", "\\", "invalid_toke", "invalid_token ", "invalid_token\\", "xinvalid_token"] {
            #expect(!value(other), "\(other)")
        }
    }

    @Test("no bytes trap it, and what it returns lies in the value, in order")
    func anything() {
        var random = SeededGenerator(17)
        let alphabet = Array("Bb eE=,,\"\"\\\t/+z9;{\u{1}\u{7f}é".utf8)
        for _ in 0..<200_000 {
            let count = Int.random(in: 0...24, using: &random)
            let value = (0..<count).map { _ in alphabet.randomElement(using: &random)! }
            let words = Self.read(value, continued: Bool.random(using: &random))
            #expect((words ?? []).reduce(0) { $0 + $1.utf8.count } <= 8 * max(count, 1))
        }
    }
}
