import Foundation
import Glibc

/// A folder of the test's own under /tmp, mode 0700, removed with everything in it when the value goes.
package final class TemporaryFolder: Sendable {
    /// Its path, without a slash at the end.
    package let path: String

    /// - Parameter shared: makes the folder and the files written through it readable for every user, for binaries that
    ///   run as another one. Its parent, /tmp, is traversable anyway.
    package init(shared: Bool = false) throws {
        var template = Array("/tmp/lanyard-test-XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else { throw TestFailure("mkdtemp: errno \(errno)") }
        path = String(decoding: template.dropLast().map(UInt8.init(bitPattern:)), as: UTF8.self)
        if shared { chmod(path, 0o755) }
    }

    /// The path of `name` in the folder.
    package func file(_ name: String) -> String { path + "/" + name }

    /// Writes a file and returns its path. 0600 unless told otherwise, as secrets want it.
    @discardableResult
    package func write(_ name: String, _ text: String, mode: mode_t = 0o600) throws -> String {
        let path = file(name)
        try Data(text.utf8).write(to: URL(fileURLWithPath: path))
        guard chmod(path, mode) == 0 else { throw TestFailure("chmod \(path): errno \(errno)") }
        return path
    }

    /// Gives the folder and all that is in it to a user, so that a binary running as that user can read its secrets.
    package func give(to uid: uid_t, group: gid_t) throws {
        let names = try FileManager.default.subpathsOfDirectory(atPath: path)
        for item in [path] + names.map(file) {
            guard chown(item, uid, group) == 0 else { throw TestFailure("chown \(item): errno \(errno)") }
        }
    }

    deinit { try? FileManager.default.removeItem(atPath: path) }
}
