/// Decides when what a look has found may be believed. Pure.
///
/// Who writes a file in place leaves it empty at first and half written then. So a change counts only when a second look, `pause` later,
/// finds the same stamp and the same bytes. A writer that rests longer than that within a file is not seen through: only a rename is safe.
struct FileSettling {
    /// What a look has found, without the secret itself.
    struct Finding: Equatable {
        enum Content: Equatable {
            /// A hash with this process's own key.
            case bytes(Int)
            case problem(SecretFile.ReadError)
        }

        var stamp: FileSnapshot.Stamp?
        var content: Content

        init(_ stamp: FileSnapshot.Stamp?, _ outcome: FileSnapshot.Outcome) {
            self.stamp = stamp
            switch outcome {
            case .failure(let problem): content = .problem(problem)
            case .success(let read):
                var hasher = Hasher()
                read.secret.withBytes { hasher.combine(bytes: $0) }
                content = .bytes(hasher.finalize())
            }
        }
    }

    /// Between a look that has found something new and the one that confirms it.
    static let pause = Duration.milliseconds(200)
    /// A file that was not touched for so long needs no second look when it is read for the first time.
    static let restingAge = Duration.seconds(1)

    private var unconfirmed: Finding?

    /// A look has found something new, which needs a second look.
    var isWaiting: Bool { unconfirmed != nil }

    /// - Parameter trustsAge: an old file needs no second look. Not for a change: the clock of a file server may be slow.
    /// - Returns: whether `finding` may be believed; if not, look again after `pause`.
    mutating func accepts(_ finding: Finding, trustsAge: Bool, at now: WallTime) -> Bool {
        let isOld = finding.stamp.map { now.nanoseconds - $0.changedAt >= Self.restingAge.nanoseconds } ?? false
        guard unconfirmed == finding || (trustsAge && unconfirmed == nil && isOld) else {
            unconfirmed = finding
            return false
        }
        unconfirmed = nil
        return true
    }

    /// The latest look has found what is known already.
    mutating func forget() { unconfirmed = nil }
}
