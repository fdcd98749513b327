import Testing

@testable import SystemTestSupport

/// The search of `CanaryTests` finds what it looks for: without this its silence would mean nothing.
@Suite struct SecretSearchTests {
    /// Two lines of a log, with the planted text in the second one.
    private static func log(_ planted: String) -> String {
        #"{"time":"2026-11-23T12:00:00.000Z","msg":"logged in","event":"session.login.succeeded"}"# + "\n"
            + #"{"time":"2026-11-23T12:00:00.001Z","msg":"request","path":"/x"# + planted + "\"}\n"
    }

    /// In every part of it all forms differ.
    private static let secret = String(repeating: SecretWritings.odd, count: 3)

    @Test("a planted secret is found in every form, at every place of a group of base64")
    func whole() throws {
        let search = SecretSearch([("the password", Self.secret), ("another", "nothing-of-this-is-there")])
        let writings = try SecretWritings.of(Self.secret)
        #expect(Set(writings.map(\.form)) == ["plain", "hex", "percent", "json", "base64"])
        for (form, text) in writings {
            let found = search.finds(in: Self.log(text), of: "log")
            #expect(
                found.contains(SecretSearch.Find(secret: "the password", form: form, place: "log")), "\(form): \(text)")
            #expect(found.allSatisfy { $0.secret == "the password" })
        }
    }

    @Test("a piece of 12 bytes is found in every form, wherever it is from; one of 10 is not", arguments: [12, 10])
    func piece(_ count: Int) throws {
        // In base64 a needle of 12 bytes has the bits of 11: its ends share letters with their neighbours.
        let secret = "m4rked/tok%en+of\"48\\octets=with.all_the-odd~ones!"
        let search = SecretSearch([("the token", secret)])
        let bytes = Array(secret.utf8)
        for start in 0...(bytes.count - count) {
            let piece = String(decoding: bytes[start..<(start + count)], as: UTF8.self)
            for (form, text) in try SecretWritings.of(piece) {
                // What stands around it must not complete the piece.
                let found = search.finds(in: Self.log("<\(text)>"), of: "log")
                #expect(found.isEmpty == (count < SecretSearch.pieceBytes), "\(form): \(text)")
            }
        }
    }

    @Test("a text without the secret has no find")
    func none() {
        let search = SecretSearch([("the password", Self.secret)])
        #expect(search.finds(in: Self.log("an ordinary path"), of: "log").isEmpty)
        #expect(search.finds(in: "short", of: "log").isEmpty)
    }
}
