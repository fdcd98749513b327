/// A path prefix that matches whole segments only: `/api` matches `/api` and `/api/x`, not `/apix`.
package struct PathPrefix: Equatable, Sendable {
    /// Without a trailing slash; empty for `/`.
    package let bytes: [UInt8]

    package init(_ path: String) {
        let bytes = Array(path.utf8)
        self.bytes = bytes.last == UInt8(ascii: "/") ? Array(bytes.dropLast()) : bytes
    }

    package func matches(_ path: Bytes) -> Bool {
        guard path.count >= bytes.count else { return false }
        for index in 0..<bytes.count where path[index] != bytes[index] { return false }
        return path.count == bytes.count || path[bytes.count] == UInt8(ascii: "/")
    }

    /// The number of slashes in the prefix, which is the number of segments of a raw path that belong to it.
    var segments: Int { bytes.count { $0 == UInt8(ascii: "/") } }

    /// The end of the prefix in a raw path, if it matches the plain view: escapes may make it longer there.
    package func end(in raw: Bytes) -> Int {
        var left = segments
        for index in 0..<raw.count where raw[index] == UInt8(ascii: "/") {
            if left == 0 { return index }
            left -= 1
        }
        return raw.count
    }
}
