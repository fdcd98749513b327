import Testing

@testable import LanyardSettings

@Suite struct StorePathTests {
    @Test("the files of a store have names of their own, whatever its users are called")
    func names() throws {
        let path = try #require(StorePath("/var/lib/lanyard/sessions"))
        #expect(path.folder == "/var/lib/lanyard")
        let users = ["lock", "open", "tmp", ".", "..", "a", "a.lock", ".lock", "open.lock", "-", "_"]
        let own = [path.name, path.lock, path.open, path.temporary]
        #expect(own == ["sessions", "sessions.lock", "sessions.open", "sessions.tmp"])
        #expect(Set(own + users.map(path.lock(of:))).count == own.count + users.count)
        #expect(path.lock(of: "open") == "sessions.open.lock")
    }

    @Test("a path without a folder stands in the working folder, one at the root in the root")
    func folders() {
        #expect(StorePath("sessions")?.folder == ".")
        #expect(StorePath("/sessions")?.folder == "/")
        #expect(StorePath("a//sessions")?.folder == "a/")
    }

    @Test(
        "what cannot be a store's name is none",
        arguments: ["", "/", "a/", "a/.", "..", "a.lock", "/x/a.open", "a.tmp", String(repeating: "a", count: 181)])
    func refused(_ path: String) { #expect(StorePath(path) == nil) }
}
