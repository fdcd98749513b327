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
