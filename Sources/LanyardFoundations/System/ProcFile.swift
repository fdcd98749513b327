import Glibc

/// Reads files of /proc and /sys, which have no size until they are read.
package enum ProcFile {
    /// The text, or nil if the file cannot be read: a process that is not dumpable may not read all of its own files.
    package static func read(_ path: String, bytesMax: Int = 64 << 10) -> String? {
        let raw = open(path, O_RDONLY | O_CLOEXEC)
        guard raw >= 0 else { return nil }
        let file = OwnedDescriptor(taking: raw)
        let bytes = try? file.read(upTo: bytesMax) { SystemError(.machine, .system($0), "reading \(path)") }
        return bytes.map { String(decoding: $0, as: UTF8.self) }
    }

    /// How many entries a folder has, or nil.
    package static func entryCount(_ path: String) -> Int? {
        guard let folder = opendir(path) else { return nil }
        defer { closedir(folder) }
        var count = 0
        while let entry = readdir(folder) {
            // "." and "..": the first byte is enough, since /proc has no hidden entries.
            if entry.pointee.d_name.0 != CChar(UInt8(ascii: ".")) { count += 1 }
        }
        return count
    }
}
