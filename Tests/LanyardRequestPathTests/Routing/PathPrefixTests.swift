import LanyardRequestPath
import Testing

@Suite struct PathPrefixTests {
    private static func end(_ prefix: String, _ raw: String) -> String {
        Array(raw.utf8).withUnsafeBufferPointer { raw in
            String(decoding: raw[run: 0..<PathPrefix(prefix).end(in: raw)], as: UTF8.self)
        }
    }

    @Test(
        "the prefix's literal bytes in a raw path, escapes included",
        arguments: [
            ("/api", "/api/x", "/api"), ("/api", "/%61pi/x", "/%61pi"), ("/api", "/api", "/api"),
            ("/a/b", "/a/b/c", "/a/b"), ("/a/", "/a/c", "/a"),
            ("/", "/x", ""), ("/", "/", ""),
        ])
    func ends(_ prefix: String, _ raw: String, _ part: String) { #expect(Self.end(prefix, raw) == part) }
}
