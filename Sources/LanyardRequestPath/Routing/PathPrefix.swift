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

/// Finds all prefixes of a path among many: one search for each segment, up to the length of the longest prefix.
struct PrefixTable: Sendable {
    private let prefixes: SortedBytes
    private let longest: Int

    init(_ prefixes: [PathPrefix]) {
        self.prefixes = SortedBytes(prefixes.map(\.bytes))
        longest = self.prefixes.values.map(\.count).max() ?? 0
    }

    var count: Int { prefixes.values.count }

    /// The index of a prefix that the table was made from.
    func place(of prefix: PathPrefix) -> Int? {
        prefix.bytes.withUnsafeBufferPointer { prefixes.place(of: $0) }
    }

    /// Calls `body` with the index of each prefix that `PathPrefix.matches` the path, the longest first, until it
    /// returns true.
    ///
    /// - Returns: whether `body` returned true.
    func visit(_ path: Bytes, _ body: (Int) -> Bool) -> Bool {
        var end = min(path.count, longest)
        while end >= 0 {
            if end == path.count || path[end] == UInt8(ascii: "/"),
                let place = prefixes.place(of: Bytes(rebasing: path[..<end])), body(place)
            {
                return true
            }
            end -= 1
        }
        return false
    }
}

/// Sorted byte strings with binary search: routes, hosts and denials are looked up without a hash or an allocation.
struct SortedBytes: Sendable {
    /// Each once, in the order of `precedes`.
    let values: [[UInt8]]

    init(_ values: some Sequence<[UInt8]>) { self.values = Set(values).sorted { $0.lexicographicallyPrecedes($1) } }

    /// The index of a string; nil if it is not there.
    func place(of wanted: Bytes) -> Int? {
        var (low, high) = (0, values.count)
        while low < high {
            let middle = (low + high) / 2
            switch Self.order(values[middle], wanted) {
            case 0: return middle
            case ..<0: low = middle + 1
            default: high = middle
            }
        }
        return nil
    }

    /// Negative if `value` comes first.
    private static func order(_ value: [UInt8], _ wanted: Bytes) -> Int {
        for index in 0..<min(value.count, wanted.count) {
            let difference = Int(value[index]) - Int(wanted[index])
            if difference != 0 { return difference }
        }
        return value.count - wanted.count
    }
}
