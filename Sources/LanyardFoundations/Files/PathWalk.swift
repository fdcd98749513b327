import Glibc

/// Follows a path as the kernel does, name by name and through every symbolic link.
///
/// What a path leads to changes with each name that is looked up on the way: those of its folders, of its links, and of what these lead to.
enum PathWalk {
    /// One lookup.
    struct Lookup {
        /// The path of the folder, without a link in it and with a NUL at its end.
        let folder: [UInt8]
        let name: ArraySlice<UInt8>
        /// No further name follows, unless this one is a link.
        let isLast: Bool

        /// The folder, for a message.
        var folderPath: String { String(decoding: folder.dropLast(), as: UTF8.self) }
    }

    /// Links of one path, as the kernel bounds them (path_resolution(7)).
    private static let linksMax = 40

    /// Blocks as long as the file systems do.
    ///
    /// - Parameter visit: called before each lookup; false ends the walk.
    static func follow(_ path: String, visit: (Lookup) -> Bool) {
        var folder: [UInt8] = []
        var rest = names(of: Array(path.utf8))
        if path.utf8.first != slash {
            guard let current = currentFolder() else { return }
            rest += names(of: current)
        }
        var links = 0
        while let name = rest.popLast() {
            if name == [dot] { continue }
            if name == [dot, dot] {
                // No component of `folder` is a link, so its parent is the path without the last one.
                folder.removeSubrange((folder.lastIndex(of: slash) ?? 0)...)
                continue
            }
            let isLast = rest.isEmpty
            guard visit(Lookup(folder: (folder.isEmpty ? [slash] : folder) + [0], name: name, isLast: isLast)) else {
                return
            }
            let found = folder + [slash] + name
            switch kind(of: found) {
            case S_IFDIR: folder = found
            case S_IFLNK:
                links += 1
                guard links <= linksMax, let target = target(of: found) else { return }
                if target.first == slash { folder = [] }
                rest += names(of: target)
            default: return
            }
        }
    }

    /// The last name is that of a file or a folder, or of nothing: known for certain.
    static func isNoLink(_ path: String) -> Bool {
        var status = stat()
        guard lstat(path, &status) == 0 else { return errno == ENOENT }
        return status.st_mode & S_IFMT != S_IFLNK
    }

    private static let slash = UInt8(ascii: "/")
    private static let dot = UInt8(ascii: ".")

    /// The names of a path, the last one first.
    private static func names(of path: [UInt8]) -> [ArraySlice<UInt8>] { path.split(separator: slash).reversed() }

    /// The kind of a file, a link itself included; nil: there is none, or it cannot be known.
    private static func kind(of path: [UInt8]) -> mode_t? {
        var status = stat()
        let code = withPath(path) { lstat($0, &status) }
        return code == 0 ? status.st_mode & S_IFMT : nil
    }

    /// What a link holds; nil: it is none any more.
    private static func target(of path: [UInt8]) -> [UInt8]? {
        let bytes = [UInt8](unsafeUninitializedCapacity: Int(PATH_MAX)) { room, count in
            count = max(withPath(path) { readlink($0, room.baseAddress!, room.count) }, 0)
        }
        return bytes.isEmpty ? nil : bytes
    }

    private static func currentFolder() -> [UInt8]? {
        guard let path = getcwd(nil, 0) else { return nil }
        defer { free(path) }
        return Array(UnsafeRawBufferPointer(start: path, count: strlen(path)))
    }

    private static func withPath<Result>(_ path: [UInt8], _ body: (UnsafePointer<CChar>) -> Result) -> Result {
        (path + [0]).withUnsafeBytes { body($0.assumingMemoryBound(to: CChar.self).baseAddress!) }
    }
}
