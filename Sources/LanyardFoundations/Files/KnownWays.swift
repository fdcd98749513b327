/// The ways to folders that walks along paths have found: ten thousand files of one folder need one walk, and a look at each.
///
/// Only as long as nothing on the way has changed: an event of a name on it forgets the way. Pure; belongs to `WatchedFiles`.
struct KnownWays {
    /// The way to one folder.
    struct Way {
        /// The names that were looked up on it.
        let names: [WatchedFiles.Name]
        /// The number of the folder, which is watched for changes of the files in it.
        let folder: Int32
        /// Why not all changes are noticed.
        let obstacle: FileNoticeError?
    }

    /// Secrets that are mounted one by one have a folder each, which helps no other.
    private static let waysMax = 64

    /// By the folder's path, as it stands in paths of files.
    private var ways: [Substring: Way] = [:]

    /// The folder and the name of a file; nil: the path ends with no name.
    static func split(_ path: String) -> (folder: Substring, name: Substring)? {
        guard let slash = path.utf8.lastIndex(of: UInt8(ascii: "/")) else { return nil }
        let name = path[path.utf8.index(after: slash)...]
        return name.isEmpty || name == "." || name == ".." ? nil : (path[..<slash], name)
    }

    subscript(folder: Substring) -> Way? { ways[folder] }

    mutating func keep(_ way: Way, to folder: Substring) {
        if ways.count >= Self.waysMax { ways.removeAll() }
        ways[folder] = way
    }

    /// A name has changed.
    mutating func forget(_ name: WatchedFiles.Name) {
        for (folder, way) in ways where way.names.contains(name) { ways[folder] = nil }
    }

    /// Anything may have changed, or a folder is not watched any more.
    mutating func forgetAll() { if !ways.isEmpty { ways.removeAll() } }
}
