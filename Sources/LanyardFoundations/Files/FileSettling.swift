/// Decides when a read's result is settled. Pure.
///
/// A writer in place leaves the file empty at first and incomplete after that. So a change counts only when a second
/// read, `settlingDelay` later, finds the same stamp and the same bytes. A writer that pauses longer than that within a
/// file is not detected: only a rename is safe. The first read of a file needs no second one if the file is at rest.
/// For a watch it needs none either if no process had the file open for writing. A login has no such exception: a
/// writer may open a file twice, and a wrong password has consequences.
package struct FileSettling {
    /// What a read has found, without the secret itself.
    struct Finding: Equatable {
        enum Content: Equatable {
            /// A hash with this process's own key.
            case bytes(Int)
            case failure(SecretFile.ReadError)
        }

        var stamp: FileSnapshot.Stamp?
        var content: Content

        init(_ stamp: FileSnapshot.Stamp?, _ outcome: FileSnapshot.Outcome) {
            self.stamp = stamp
            switch outcome {
            case .failure(let error): content = .failure(error)
            case .success(let read):
                var hasher = Hasher()
                read.secret.withBytes { hasher.combine(bytes: $0) }
                content = .bytes(hasher.finalize())
            }
        }
    }

    /// Between a read that has found something new and the one that confirms it.
    package static let settlingDelay = Duration.milliseconds(200)

    private var unconfirmed: Finding?

    /// A read has found something new, which needs a second read.
    var isWaiting: Bool { unconfirmed != nil }

    /// - Parameter isAtRest: a first read found the file at rest, which needs no second read. Never true of a change: the clock of a file
    ///   server may be slow.
    /// - Returns: whether `finding` is settled; if not, read again after `settlingDelay`.
    mutating func accepts(_ finding: Finding, isAtRest: Bool) -> Bool {
        let isUnsettled = finding.content == .failure(.unsettled)
        guard !isUnsettled, unconfirmed == finding || (isAtRest && unconfirmed == nil) else {
            unconfirmed = finding
            return false
        }
        unconfirmed = nil
        return true
    }

    /// The latest read has found the known content.
    mutating func forget() { unconfirmed = nil }
}
