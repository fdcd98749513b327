/// The known name that a misspelt one was probably meant to be.
package enum NearestName {
    /// The nearest of `names` by edit distance, if it is near enough to be meant: at most a third of the letters differ,
    /// and one or two always may. A name that contains the other as a whole counts as near.
    package static func of(_ name: String, among names: some Sequence<String>) -> String? {
        let wanted = Array(name.utf8.prefix(65))
        // Longer than any key: not a slip of the finger, and the table would grow with what an attacker writes.
        guard !wanted.isEmpty, wanted.count <= 64 else { return nil }
        var best: (name: String, distance: Int)?
        for candidate in names {
            let distance = distance(wanted, Array(candidate.utf8))
            if distance < best?.distance ?? Int.max { best = (candidate, distance) }
        }
        if let best, best.distance <= max(2, wanted.count / 3), best.distance < wanted.count { return best.name }
        return names.first { wanted.count >= 4 && ($0.hasPrefix(name) || name.hasPrefix($0)) }
    }

    /// Edits from one to the other: insert, delete, replace, or swap two neighbours.
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
