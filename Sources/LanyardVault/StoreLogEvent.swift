import LanyardSessionInterface
import LanyardSettings
import Logging

/// An event of the sealed file that no caller requested: for the log.
package enum StoreLogEvent: Equatable, Sendable {
    /// There was no file, and an empty store was created.
    case created
    /// A file of format 1 was replaced, and is kept as `PATH.v1`.
    case converted
    /// An interrupted write has left its temporary file, which was removed.
    case leftoverRemoved
    /// The file's count of writes is lower than one that this process has seen: an older file has replaced it.
    case rolledBack(from: UInt64, to: UInt64)
    /// The sealed file cannot be written. `PATH.used` says that the user's refresh token was sent, or that the configured credential has
    /// served its only login.
    case useMarked(user: String, isCredential: Bool = false)
    /// Not even that could be written.
    case useUnmarked(user: String, StoreError)
}

extension StoreLogEvent {
    /// Its line in the log.
    func announce(of path: StorePath, on log: Logger) {
        let place: Logger.MetadataValue = "\(path.path)"
        switch self {
        case .created: log.notice("a new, empty store was made", metadata: ["event": "store.created", "path": place])
        case .converted:
            log.notice(
                "the store has the format of this release now; as the former release wrote it, it is kept beside it",
                metadata: ["event": "store.converted", "path": place, "kept": "\(path.path).v1"])
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
        case .useMarked(let user, let isCredential):
            let what =
                isCredential
                ? "the configured credential has served its only login, and" : "the refresh token that is sent now"
            log.notice(
                "the store cannot be written: \(what) is marked as used, so that no restart sends it again",
                metadata: ["event": "store.use_marked", "user": "\(user)", "path": "\(path.path).used"])
        case .useUnmarked(let user, let error):
            log.error(
                """
                a refresh token that works once cannot be marked as used: a restart before the store can be written would \
                send it again, and the service may end the session: \(error.message)
                """,
                metadata: ["event": "store.use_unmarked", "user": "\(user)", "path": "\(path.path).used"])
        }
    }
}
