import LanyardConfiguration
import LanyardFoundations
import LanyardSettings

/// What `lanyard check` says of secret files whose changes are seen late, because inotify cannot be used for them.
///
/// Up to 1000 such files are read every 2 s, which is soon enough for no warning. One that the operator can correct is a warning in any
/// case.
package enum FileChangeCheck {
    /// A file that `run` watches.
    private struct Watched {
        let path: String
        let owner: ConfiguredFileError.Owner
    }

    /// One for each obstacle, at the first of its files. Blocks as long as the disk does.
    package static func warnings(_ configuration: Configuration) -> [ConfiguredFileWarning] {
        let watched = files(of: configuration)
        let obstacles = FileChangeProbe.obstacles(of: Set(watched.map(\.path)))
        let delay = FileChangeMonitor.interval(polledCount: obstacles.count)
        let isLate = delay > FileWatch.interval
        let counts: [FileNoticeError: Int] = obstacles.values.reduce(into: [:]) { $0[$1, default: 0] += 1 }
        var named: Set<FileNoticeError> = []
        return watched.compactMap { file in
            guard let obstacle = obstacles[file.path], isLate || obstacle.isShortage,
                named.insert(obstacle).inserted
            else { return nil }
            let others = (counts[obstacle] ?? 1) - 1
            return ConfiguredFileWarning(
                file.owner, path: file.path,
                message(path: file.path, others: others, delay: delay, because: obstacle.message))
        }
    }

    /// - Parameters:
    ///   - others: files with the same obstacle.
    ///   - reason: one clause.
    static func message(path: String, others: Int, delay: Duration, because reason: String) -> String {
        let shared = others == 0 ? "" : " and of \(others) other \(others == 1 ? "file" : "files")"
        return "changes of \(path)\(shared) are seen within \(Int(delay.inSeconds.rounded(.up))) s: \(reason)"
    }

    private static func files(of configuration: Configuration) -> [Watched] {
        let capabilities = configuration.listeners.capabilityPlaces.compactMap { place in
            place.file.map { Watched(path: $0, owner: place.owner) }
        }
        let identities = configuration.identities.flatMap { identity -> [Watched] in
            let paths: [String] =
                if case .staticToken(let file) = identity.kind { [file] } else { identity.clientFiles }
            return paths.map { Watched(path: $0, owner: .identity(identity.name)) }
        }
        let users = configuration.users.flatMap { user in
            (user.login?.files ?? []).map { Watched(path: $0, owner: .user(user.name)) }
        }
        let fields = configuration.fieldFiles.map { Watched(path: $0.path, owner: .route($0.index)) }
        return capabilities + identities + users + fields
    }
}
