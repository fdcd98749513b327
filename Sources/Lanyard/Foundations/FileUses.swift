/// Which contents of a file were used, and when by a count of uses.
///
/// A login reads its file at a moment of its own. A content that was there just then, between two looks of the file's watch, is one that the
/// watch has never seen; the return of the former content is a change all the same.
struct FileUses {
    /// More contents within one interval of a watch than this come from no operator.
    private static let contentsMax = 8

    /// All uses so far.
    private(set) var count = 0
    private var latest: [(content: FileSettling.Finding.Content, number: Int)] = []

    mutating func note(_ content: FileSettling.Finding.Content) {
        count += 1
        latest.removeAll { $0.content == content }
        if latest.count == Self.contentsMax { latest.removeFirst() }
        latest.append((content, count))
    }

    /// Whether another content than this one was used after use `number`.
    func hasOther(than content: FileSettling.Finding.Content, after number: Int) -> Bool {
        latest.contains { $0.number > number && $0.content != content }
    }
}
