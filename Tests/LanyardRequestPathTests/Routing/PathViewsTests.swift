import LanyardRequestPath
import Testing

@Suite struct PathViewsTests {
    private static func views(_ path: String) -> PathViews? {
        Array(path.utf8).withUnsafeBufferPointer { PathViews($0) }
    }

    private static func text(_ bytes: [UInt8]?) -> String? { bytes.map { String(decoding: $0, as: UTF8.self) } }

    @Test(
        "plain decodes unreserved characters only; normalised decodes all twice, merges, cuts and removes",
        arguments: [
            ("/a/b", "/a/b", "/a/b"), ("/%61%2Db", "/a-b", "/a-b"), ("/a%2fb", "/a%2fb", "/a/b"),
            ("/a%252fb", "/a%252fb", "/a/b"),
            ("/a%25252fb", "/a%25252fb", "/a%2fb"), ("/a\\b", "/a\\b", "/a/b"), ("/a%5Cb", "/a%5Cb", "/a/b"),
            ("/a//b", "/a//b", "/a/b"),
            ("/a;x=1/b;y", "/a;x=1/b;y", "/a/b"), ("/a/./b", "/a/./b", "/a/b"), ("/a/../b", "/a/../b", "/b"),
            ("/a/%2e%2E/b", "/a/../b", "/b"),
            ("/a/..;x/b", "/a/..;x/b", "/b"), ("/a/", "/a/", "/a/"), ("/a/.", "/a/.", "/a/"),
            ("/a/b/..", "/a/b/..", "/a/"), ("/%7Eu", "/~u", "/~u"),
            ("/a%20b", "/a%20b", "/a b"), ("/...", "/...", "/..."), ("/", "/", "/"), ("//", "//", "/"),
            ("/a%3B/../b", "/a%3B/../b", "/b"),
        ])
    func views(_ path: String, _ plain: String, _ normalized: String) {
        #expect(Self.text(Self.views(path)?.plain) == plain)
        #expect(Self.text(Self.views(path)?.normalized) == normalized)
    }

    @Test(
        "always refused: % without two hex digits, %00",
        arguments: ["/%", "/%4", "/%4x", "/%x4", "/a%", "/%%41", "/%00", "/a%00b", "/%u0041"])
    func refused(_ path: String) { #expect(Self.views(path) == nil) }

    @Test(
        "climbing above the root is noticed",
        arguments: [
            ("/..", true), ("/a/../..", true), ("/%2e%2e/a", true), ("/a/..", false), ("/..;/a", true),
            ("/a//../../b", true), ("/\\..", true),
            ("/%252e%252e/", true), ("/a/b", false),
        ])
    func escapes(_ path: String, _ escapes: Bool) { #expect(Self.views(path)?.escapesRoot == escapes) }

    @Test("a path that is called simple has both views equal to itself")
    func simple() throws {
        var random = SeededPath()
        var simple = 0
        for _ in 0..<5_000 {
            let path = random.path()
            let isSimple = Array(path.utf8).withUnsafeBufferPointer { PathViews.isSimple($0) }
            guard isSimple else { continue }
            simple += 1
            let views = try #require(Self.views(path))
            #expect(Self.text(views.plain) == path)
            #expect(Self.text(views.normalized) == path)
            #expect(!views.escapesRoot)
        }
        #expect(simple > 100)
    }
}
