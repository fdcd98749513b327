import Glibc

/// Reads files of /proc, which have no size until they are read.
package enum ProcFile {
    /// The text, or nil if the file cannot be read: a process that is not dumpable may not read all of its own files.
    package static func read(_ path: String, bytesMax: Int = 64 << 10) -> String? {
        let raw = open(path, O_RDONLY | O_CLOEXEC)
        guard raw >= 0 else { return nil }
        let file = OwnedDescriptor(taking: raw)
        return withUnsafeTemporaryAllocation(byteCount: bytesMax, alignment: 1) { room -> String? in
            var count = 0
            while count < room.count {
                let got = Glibc.read(file.raw, room.baseAddress! + count, room.count - count)
                if got < 0, errno == EINTR { continue }
                guard got >= 0 else { return nil }
                if got == 0 { break }
                count += got
            }
            return String(decoding: room[0..<count], as: UTF8.self)
        }
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
