import LanyardEmulator
import TestSupport
import Testing

@Suite struct SeedReaderTests {
    @Test("a seed file names users and keys, secrets inline or in files beside it")
    func reads() throws {
        let folder = try TemporaryFolder()
        try folder.write("pw", "correct-horse\n")
        let seed = try SeedReader.read(
            folder.write(
                "seed.yaml",
                """
                users:
                  - {email: alice@example.com, password_file: pw}
                  - email: bob@example.com
                    password: "123456"
                api_keys:
                  - {name: ci, key: abc}
                  - {name: own, key: def, user: bob@example.com}
                """))
        #expect(seed.users.map(\.email) == ["alice@example.com", "bob@example.com"])
        #expect(seed.users.map(\.password) == ["correct-horse", "123456"])
        #expect(seed.keys.map(\.email) == [nil, "bob@example.com"])
    }

    @Test(
        "a seed that cannot be used says where and why",
        arguments: [
            ("users:\n  - {email: a}", "line 2: password is missing"),
            ("colour: blue", "line 1: unknown key colour; known are users, api_keys, apps, oauth"),
            ("users: 5", "line 1: expected a list"), ("users: [", "line 2: did not find expected node content"),
        ])
    func refuses(text: String, problem: String) throws {
        let folder = try TemporaryFolder()
        let path = try folder.write("seed.yaml", text)
        let failure = #expect(throws: SeedReader.ReadError.self) { try SeedReader.read(path) }
        #expect(failure?.description == "\(path): \(problem)")
    }
}
