import Glibc

/// The folder that relative paths on the command line start from.
enum WorkingFolder {
    /// The absolute path of the same file; unchanged if the working folder is unknown.
    static func absolute(_ path: String) -> String {
        guard !path.hasPrefix("/"), let folder = getcwd(nil, 0) else { return path }
        defer { free(folder) }
        let name = String(cString: folder)
        return name == "/" ? "/" + path : "\(name)/\(path)"
    }
}
