import Foundation
import Glibc
import LanyardFoundations

/// A folder for one test, mode 0700. It is removed with its content on `deinit`, or else when the process ends.
package final class TemporaryFolder: Sendable {
    /// Its path, without a slash at the end. It is short because a socket's path has 107 bytes at most.
    package let path: String

    /// - Parameter shared: makes the folder and files written through it readable for every Unix user, for binaries that run
    ///   as another one. Its parents are traversable in any case.
    package init(shared: Bool = false) throws {
        path = try TemporaryFolders.shared.make()
        if shared { chmod(path, 0o755) }
    }

    /// The path of `name` in the folder.
    package func file(_ name: String) -> String { path + "/" + name }

    /// Writes a file and returns its path. The default mode is 0600, as for secrets.
    @discardableResult
    package func write(_ name: String, _ text: String, mode: mode_t = 0o600) throws -> String {
        let path = file(name)
        try Data(text.utf8).write(to: URL(fileURLWithPath: path))
        guard chmod(path, mode) == 0 else { throw TestFailure("chmod \(path): errno \(errno)") }
        return path
    }

    /// Changes the owner of the folder and its content, so that a binary running as that Unix user can read its secrets.
    package func give(to uid: uid_t, group: gid_t) throws {
        let names = try FileManager.default.subpathsOfDirectory(atPath: path)
        for item in [path] + names.map(file) {
            guard chown(item, uid, group) == 0 else { throw TestFailure("chown \(item): errno \(errno)") }
        }
    }

    deinit { TemporaryFolders.shared.remove(path) }
}

/// All temporary folders of this process, below one parent.
///
/// A value in a static variable is never released, and a folder in which a killed process still writes may not be removable at once.
/// The process removes both kinds when it exits.
///
/// `LANYARD_TEST_FOLDER` names the parent. The script that sets it removes the parent, also if this process is killed. Without the
/// variable the process creates a parent and removes it when it exits.
private final class TemporaryFolders: Sendable {
    static let shared = TemporaryFolders()

    private let parent: String
    private let isOwnParent: Bool
    /// Existing folders.
    private let paths = Guarded<Set<String>>([])

    private init() {
        if let given = getenv("LANYARD_TEST_FOLDER").map({ String(cString: $0) }), !given.isEmpty {
            (parent, isOwnParent) = (given, false)
        } else {
            // A failure shows when the first folder is created.
            (parent, isOwnParent) = ((try? Self.make(in: "/tmp/lt-")) ?? "/tmp", true)
            chmod(parent, 0o711)
        }
        atexit { TemporaryFolders.shared.removeAll() }
    }

    func make() throws -> String {
        let path = try Self.make(in: parent + "/")
        paths.withLock { _ = $0.insert(path) }
        return path
    }

    func remove(_ path: String) {
        try? FileManager.default.removeItem(atPath: path)
        if access(path, F_OK) != 0 { paths.withLock { _ = $0.remove(path) } }
    }

    private static func make(in prefix: String) throws -> String {
        var template = Array((prefix + "XXXXXX").utf8CString)
        guard mkdtemp(&template) != nil else { throw TestFailure("mkdtemp \(prefix): errno \(errno)") }
        return String(decoding: template.dropLast().map(UInt8.init(bitPattern:)), as: UTF8.self)
    }

    /// Removes all folders. Processes in static variables still run and may write, so it tries several times.
    private func removeAll() {
        for _ in 0..<20 {
            let left = paths.withLock { $0 }
            if left.isEmpty { break }
            for path in left {
                Self.openFolders(in: path)
                remove(path)
            }
            if paths.withLock({ !$0.isEmpty }) { usleep(50_000) }
        }
        if isOwnParent { rmdir(parent) }
    }

    /// Makes folders accessible again that a test has closed, so that Unix users other than root can empty them.
    private static func openFolders(in path: String) {
        chmod(path, 0o700)
        for name in (try? FileManager.default.contentsOfDirectory(atPath: path)) ?? [] {
            var status = stat()
            if lstat(path + "/" + name, &status) == 0, status.st_mode & S_IFMT == S_IFDIR {
                openFolders(in: path + "/" + name)
            }
        }
    }
}
