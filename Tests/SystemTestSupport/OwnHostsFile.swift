import Foundation
import TestSupport

/// A hosts file for one program, which reads no other source of names; it may be rewritten while the program runs.
final class OwnHostsFile: Sendable {
    private let folder: TemporaryFolder

    /// - Parameter entries: such as `127.0.0.2 upstream.test`; `localhost` is there anyway.
    init(_ entries: [String]) throws {
        folder = try TemporaryFolder()
        try folder.write("nsswitch.conf", "hosts: files\n", mode: 0o644)
        try folder.write("hosts", Self.text(entries), mode: 0o644)
    }

    /// What to put before the program and its arguments.
    var launcher: [String] {
        MountNamespace.launcher(["hosts", "nsswitch.conf"].map { (folder.file($0), "/etc/" + $0) })
    }

    /// Replaces the entries. In place: the mount is of the file, not of its name.
    func write(_ entries: [String]) throws {
        let file = try FileHandle(forWritingTo: URL(fileURLWithPath: folder.file("hosts")))
        try file.truncate(atOffset: 0)
        try file.write(contentsOf: Data(Self.text(entries).utf8))
        try file.close()
    }

    private static func text(_ entries: [String]) -> String {
        (["127.0.0.1 localhost"] + entries).map { $0 + "\n" }.joined()
    }
}
