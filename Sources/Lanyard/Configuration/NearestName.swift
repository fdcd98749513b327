/// Finds the known name that a misspelt one was probably meant to be.
package enum NearestName {
    /// The nearest of `names` by edit distance, if it is near enough.
    ///
    /// Near enough means: at most a third of the letters differ, or at most two. If no name is near enough, a name counts that begins with
    /// `name`, or that `name` begins with.
    package static func of(_ name: String, among names: some Sequence<String>) -> String? {
        let wanted = Array(name.utf8.prefix(65))
        // A longer text is longer than any key, so it is not a typing error. The limit also bounds the table for hostile input.
        guard !wanted.isEmpty, wanted.count <= 64 else { return nil }
        var best: (name: String, distance: Int)?
        for candidate in names {
            let distance = distance(wanted, Array(candidate.utf8))
            if distance < best?.distance ?? Int.max { best = (candidate, distance) }
        }
        if let best, best.distance <= max(2, wanted.count / 3), best.distance < wanted.count { return best.name }
        return names.first { wanted.count >= 4 && ($0.hasPrefix(name) || name.hasPrefix($0)) }
    }

    /// The number of edits from one to the other: insert, delete, replace, or swap of two adjacent letters.
    static func distance(_ left: [UInt8], _ right: [UInt8]) -> Int {
        var beforeLast: [Int] = []
        var last = Array(0...right.count)
        for i in 0..<left.count {
            var row = [i + 1]
            for j in 0..<right.count {
                var cost = min(last[j] + (left[i] == right[j] ? 0 : 1), last[j + 1] + 1, row[j] + 1)
                if i > 0, j > 0, left[i] == right[j - 1], left[i - 1] == right[j] {
                    cost = min(cost, beforeLast[j - 1] + 1)
                }
                row.append(cost)
            }
            (beforeLast, last) = (last, row)
        }
        return last[right.count]
    }
}
