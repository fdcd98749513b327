import LanyardRequestPath

/// What a reader makes of some bytes.
enum HeadOutcome<Head: FuzzedHead> {
    case head(Head)
    case error(HeadError)
    case more

    func same(as other: HeadOutcome) -> Bool {
        switch (self, other) {
        case (.head(let left), .head(let right)): left == right
        case (.error(let left), .error(let right)): left.isSame(as: right)
        case (.more, .more): true
        default: false
        }
    }
}

extension HeadError {
    /// As `==`, which makes two strings where one look at the address of the words will nearly always do.
    func isSame(as other: HeadError) -> Bool {
        kind == other.kind && (message.utf8Start == other.message.utf8Start || self == other)
    }
}
