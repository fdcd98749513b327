/// Which contents of a file were used, numbered by use.
///
/// A login reads its file independently of the file's watch. So a content may be used that appeared and disappeared between two reads of
/// the watch. The return of the former content then counts as a change.
struct FileUses {
    /// An operator does not write more contents than this within one interval of a watch.
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
