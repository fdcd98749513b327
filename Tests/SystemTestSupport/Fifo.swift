import Foundation
import Glibc
import TestSupport

/// A configuration that the test hands over when it likes: until then the program that reads it is in the middle of its start.
final class Fifo: Sendable {
    let path: String

    init(in folder: TemporaryFolder) throws {
        path = folder.file("lanyard.yaml")
        guard mkfifo(path, 0o600) == 0 else { throw TestFailure("mkfifo: errno \(errno)") }
    }

    /// Waits until a reader has opened it.
    func opened() async throws -> FileHandle {
        var handle: FileHandle?
        try await eventually("the configuration is being read") {
            // Without waiting: it fails until there is a reader.
            let raw = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC)
            if raw >= 0 { handle = FileHandle(fileDescriptor: raw, closeOnDealloc: true) }
            return raw >= 0
        }
        return handle!
    }
}
