import LanyardSettings
import Logging

/// An event of the sealed file that no caller requested: for the log.
package enum StoreLogEvent: Equatable, Sendable {
    /// There was no file, and an empty store was created.
    case created
    /// An interrupted write has left its temporary file, which was removed.
    case leftoverRemoved
    /// The file's count of writes is lower than one that this process has seen: an older file has replaced it.
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
                "an interrupted write has left a temporary file, which is removed: nothing of it was in use",
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
