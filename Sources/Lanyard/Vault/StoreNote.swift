import Logging

/// What happened to the sealed file beside what was asked for: for the log.
package enum StoreLogEvent: Equatable, Sendable {
    /// There was none, and now there is an empty one.
    case created
    /// A write that a crash had cut off left its temporary file, which is gone now.
    case leftoverRemoved
    /// The file has seen fewer writes than this process has seen in it: an old one was put in its place.
    case rolledBack(from: UInt64, to: UInt64)
}

extension StoreLogEvent {
    /// Its line in the log.
    func announce(of path: StorePath, on log: Logger) {
        let place: Logger.MetadataValue = "\(path.path)"
        switch self {
        case .created: log.notice("a new, empty store was made", metadata: ["event": "store.created", "path": place])
        case .leftoverRemoved:
            log.notice(
                "a write that was cut off has left a temporary file, which is removed: nothing of it was in use",
                metadata: ["event": "store.leftover_removed", "path": place])
        case .rolledBack(let from, let to):
            log.warning(
                "the store has been replaced by an older one: sessions may have to log in again",
                metadata: [
                    "event": "store.rolled_back", "path": place, "from": .stringConvertible(from),
                    "to": .stringConvertible(to),
                ])
        }
    }
}
