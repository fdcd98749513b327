/// What an unknown key was probably meant to be. A word that is known elsewhere, here or in other programs, comes before one that is
/// merely spelled alike.
enum UnknownKey {
    enum Suggestion: Equatable {
        /// A key of the same section, in another spelling.
        case spelling(String)
        /// What to write, as the remedy of an error.
        case meaning(String)
    }

    /// nil: nothing is known of it.
    static func suggestion(
        for name: String, in section: String, among known: [ConfigurationKey]
    ) -> Suggestion? {
        let names = known.map(\.name)
        if let same = NearestName.sameWord(as: name, among: names) { return .spelling(same) }
        if let remedy = MeantKey.remedy(for: name, in: section) { return .meaning(remedy) }
        let places = ConfigurationKeys.all.filter { $0.name == name }.map(\.section)
        guard !places.isEmpty else { return NearestName.of(name, among: names).map { .spelling($0) } }
        if let near = NearestName.of(name, among: names), NearestName.isNear(name, near) { return .spelling(near) }
        return .meaning(
            "it belongs \(Self.text(of: places)): check the indentation, and whether a line above is missing")
    }

    private static let placesMax = 3

    /// A known key in the wrong section: a line may be indented too little or too much.
    private static func text(of sections: [String]) -> String {
        guard !sections.contains("") else { return "at the top" }
        let shown = sections.count > placesMax ? Array(sections.prefix(placesMax - 1)) + ["elsewhere"] : sections
        guard let last = shown.last, shown.count > 1 else { return "below \(sections[0])" }
        return "below \(shown.dropLast().joined(separator: ", ")) or \(last)"
    }
}

/// Finds the known name that a misspelt one was probably meant to be.
package enum NearestName {
    private static let bytesMax = 64

    /// The one of `names` that differs in the case of letters, `-` and `_` alone.
    static func sameWord(as name: String, among names: some Sequence<String>) -> String? {
        // The limit also bounds the work for hostile input.
        guard name.utf8.count <= bytesMax else { return nil }
        let wanted = folded(name)
        return names.first { folded($0) == wanted }
    }

    /// The bytes in small letters, without `-` and `_`.
    static func folded(_ name: String) -> [UInt8] {
        name.utf8.compactMap { byte in
            switch byte {
            case UInt8(ascii: "-"), UInt8(ascii: "_"): nil
            case 0x41...0x5a: byte | 0x20
            default: byte
            }
        }
    }

    /// One edit apart, or singular and plural of one word.
    static func isNear(_ name: String, _ other: String) -> Bool {
        let (left, right) = (Array(name.utf8.prefix(bytesMax)), Array(other.utf8))
        return distance(left, right) <= 1 || stem(left) == stem(right)
    }

    private static func stem(_ name: [UInt8]) -> [UInt8] {
        if name.suffix(3).elementsEqual("ies".utf8) { return Array(name.dropLast(3)) + "y".utf8 }
        return name.last == UInt8(ascii: "s") ? Array(name.dropLast()) : name
    }

    /// The nearest of `names` by edit distance, if it is near enough.
    ///
    /// Near enough means: at most a third of the letters differ, or at most two. A name that differs in the case of letters, `-` and `_`
    /// alone comes first. If no name is near enough, a name counts that begins with `name`, or that `name` begins with.
    package static func of(_ name: String, among names: some Sequence<String>) -> String? {
        let wanted = Array(name.utf8.prefix(bytesMax + 1))
        // A longer text is longer than any key, so it is not a typing error. The limit also bounds the table for hostile input.
        guard !wanted.isEmpty, wanted.count <= bytesMax else { return nil }
        if let same = sameWord(as: name, among: names) { return same }
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
