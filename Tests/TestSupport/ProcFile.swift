import Glibc

/// A file of /proc, read to its end.
///
/// Foundation takes a read that is shorter than asked for as the end. The kernel gives such a file a page at a time, so Foundation
/// shows the first 4 KiB of a process's mappings, and of the machine's sockets.
package enum ProcFile {
    package static func text(_ path: String) throws -> String {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw TestFailure("\(path): errno \(errno)") }
        defer { close(descriptor) }
        var text: [UInt8] = []
        var page = [UInt8](repeating: 0, count: 64 << 10)
        while true {
            let count = read(descriptor, &page, page.count)
            guard count >= 0 else { throw TestFailure("\(path): errno \(errno)") }
            if count == 0 { return String(decoding: text, as: UTF8.self) }
            text += page.prefix(count)
        }
    }
}
