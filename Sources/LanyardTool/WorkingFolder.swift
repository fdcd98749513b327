import Glibc

/// The folder that a path on the command line starts from.
enum WorkingFolder {
    /// The same file, named from the root; as it came if nobody knows the folder.
    static func absolute(_ path: String) -> String {
        guard !path.hasPrefix("/"), let folder = getcwd(nil, 0) else { return path }
        defer { free(folder) }
        let name = String(cString: folder)
        return name == "/" ? "/" + path : "\(name)/\(path)"
    }
}
