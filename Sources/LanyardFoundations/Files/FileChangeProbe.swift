/// Finds out beforehand whether changes of files will be noticed, for a command that checks a configuration.
package enum FileChangeProbe {
    /// Why changes of these files are not noticed at once; a path without an entry has no obstacle. Blocks as long as the file systems do.
    ///
    /// The kernel's limits hold for an account. So an account that checks may have other obstacles than the one that runs.
    package static func obstacles(of paths: some Sequence<String>) -> [String: FileNoticeError] {
        var found: [String: FileNoticeError] = [:]
        do throws(FileNoticeError) {
            let inotify = try Inotify()
            for path in paths { found[path] = obstacle(of: path, inotify) }
        } catch {
            for path in paths { found[path] = error }
        }
        return found
    }

    private static func obstacle(of path: String, _ inotify: Inotify) -> FileNoticeError? {
        FileProgress.note(path)
        defer { FileProgress.noteEnd() }
        var obstacle: FileNoticeError?
        PathWalk.follow(path) { lookup in
            let folder = inotify.watch(lookup.folder, content: lookup.isLast)
            obstacle =
                folder < 0
                ? FileNoticeError(refusal: -folder, lookup) : FileNoticeError.ofFileSystem(at: lookup.folder)
            return obstacle == nil
        }
        return obstacle
    }
}
