/// The names of a store's files: the sealed one, and those beside it that begin with its name.
///
/// They never meet: a user's lock has a name of one character at least between two dots, so even those of users called `lock` and `open`
/// differ from the store's own. Two stores in one folder keep apart if neither name is the other's with a dot and more behind it.
package struct StorePath: Equatable, Sendable {
    /// As configured.
    package let path: String
    package let folder: String
    package let name: String

    /// With `.`, a user's name and `.lock` behind it, it is no longer than a name may be.
    private static let nameBytesMax = 180

    /// nil: no file can stand there, or its name is one that the store gives to files of its own.
    package init?(_ path: String) {
        let cut = path.lastIndex(of: "/")
        let name = cut.map { String(path[path.index(after: $0)...]) } ?? path
        guard !name.isEmpty, name != ".", name != "..", name.utf8.count <= Self.nameBytesMax,
            ![".lock", ".open", ".tmp"].contains(where: name.hasSuffix)
        else { return nil }
        self.path = path
        self.name = name
        folder = cut.map { $0 == path.startIndex ? "/" : String(path[..<$0]) } ?? "."
    }

    /// Held while the sealed file is read, changed and written.
    package var lock: String { name + ".lock" }
    /// Held in common by every process that has the store open.
    package var open: String { name + ".open" }
    /// Becomes the sealed file. One name suffices: who writes has `lock`.
    package var temporary: String { name + ".tmp" }
    /// Held from before a user's call until its answer is stored.
    package func lock(of user: String) -> String { "\(name).\(user).lock" }
}
