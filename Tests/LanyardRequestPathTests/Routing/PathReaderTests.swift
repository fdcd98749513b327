import Testing

@testable import LanyardRequestPath

@Suite struct PathReaderTests {
    /// How nginx reads: escapes decoded once, slashes merged; neither `\` nor `;` means anything to it.
    private static let nginx = PathReader(
        decoding: .once, decodesSlashes: true, splitsAtBackslash: false, cutsParameters: false, mergesSlashes: true)
    /// How RFC 3986 §5.2.4 and §6.2.2 read.
    private static let rfc3986 = PathReader(
        decoding: .unreserved, decodesSlashes: false, splitsAtBackslash: false, cutsParameters: false,
        mergesSlashes: false)

    private static func read(_ path: String, _ reader: PathReader) -> String {
        let (read, escapesBase) = reader.read(Array(path.utf8))
        return escapesBase ? "out" : String(decoding: read, as: UTF8.self)
    }

    @Test(
        "what a dot segment takes away depends on the reader",
        arguments: [
            ("/x/a%5cb/../../c", "/c", "/c", "/x/c"), ("/x/a%252fb/../../c", "/c", "/c", "/x/c"),
            ("/x/a%2fb/../../c", "/x/c", "/c", "/x/c"), ("/a//../b", "/b", "/a/b", "/b"),
            ("/a/..;/b", "/a/..;/b", "/a/..;/b", "/b"), ("/a/%2e%2e/b", "/b", "/b", "/b"),
            ("/../a", "out", "out", "out"),
            ("/a/%252e%252e/b", "/a/%2e%2e/b", "/a/%252e%252e/b", "/b"), ("/a/.", "/a/", "/a/", "/a/"),
            ("/a//", "/a/", "/a//", "/a/"), ("/", "/", "/", "/"), ("", "/", "/", "/"), ("/a;b", "/a;b", "/a;b", "/a"),
        ])
    func readings(_ path: String, _ nginx: String, _ rfc3986: String, _ normalized: String) {
        #expect(Self.read(path, Self.nginx) == nginx)
        #expect(Self.read(path, Self.rfc3986) == rfc3986)
        #expect(Self.read(path, .normalized) == normalized)
    }

    @Test("every combination of liberties is there once, the known readers among them")
    func all() {
        #expect(PathReader.all.count == 48)
        for reader in [Self.nginx, Self.rfc3986, .normalized] { #expect(PathReader.all.count { $0 == reader } == 1) }
        for (index, reader) in PathReader.all.enumerated() { #expect(!PathReader.all[..<index].contains(reader)) }
    }

    @Test(
        "a dot segment that any reader sees is seen",
        arguments: [
            ("/a/../b", true), ("/a/.", true), ("/%2e/a", true), ("/a%252f%252e.", true), ("/a\\..", true),
            ("/..;x", true), ("/a%5c%2e%2e%3bx", true), ("/a.b", false), ("/...", false), ("/.a/b..", false),
            ("/a%20b;c\\d//e", false), ("/%25252e%25252e", false),
        ])
    func dots(_ path: String, _ expected: Bool) { #expect(PathReader.hasDotSegment(Array(path.utf8)) == expected) }

    @Test(
        "a separator that parameters may hide is seen, however it is written",
        arguments: [
            ("/a;b%2fc", true), ("/a;b%5Cc", true), ("/a;b\\c", true), ("/a%3bb%252fc", true), ("/a%253bb%2f", true),
            ("/a;b/c", false), ("/a%2fb", false), ("/a\\b//c", false), ("/a;b%20c", false), ("/a;b%25252fc", false),
        ])
    func hidden(_ path: String, _ expected: Bool) { #expect(PathReader.hidesSeparator(Array(path.utf8)) == expected) }
}
