import Foundation
import Glibc
import TestSupport

/// A named pipe by which the test hands a program a file when it likes, such as its configuration: until then the reader waits.
final class Fifo: Sendable {
    let path: String

    init(in folder: TemporaryFolder, named name: String = "lanyard.yaml") throws {
        path = folder.file(name)
        guard mkfifo(path, 0o600) == 0 else { throw TestFailure("mkfifo: errno \(errno)") }
    }

    /// Waits until a reader has opened it. A write after the reader has gone throws.
    func opened() async throws -> FileHandle {
        // Its default action would end the tests. Started programs get the default again.
        signal(SIGPIPE, SIG_IGN)
        var handle: FileHandle?
        try await eventually("\(path) is being read") {
            // Without waiting: it fails until there is a reader.
            let raw = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC)
            if raw >= 0 { handle = FileHandle(fileDescriptor: raw, closeOnDealloc: true) }
            return raw >= 0
        }
        return handle!
    }
}
