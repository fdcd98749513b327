import LanyardFoundations
import LanyardSessions

/// Applies a new configuration to users and identities.
final class SessionReload: ReloadableUsers {
    private let sessions: SessionService
    private let sources: SessionSources

    init(_ sessions: SessionService, _ sources: SessionSources) { (self.sessions, self.sources) = (sessions, sources) }

    func prepare(_ next: NextConfiguration) throws(ReloadError) -> SessionSources.Made {
        do throws(SystemError) {
            return try sources.prepare(next.configuration, next.files.identityTLS)
        } catch {
            throw ReloadError(message: "\(error); raise the limit of open files (LimitNOFILE)")
        }
    }

    func commit(
        _ prepared: SessionSources.Made, begins: @escaping @Sendable () -> Bool,
        serve: @escaping @Sendable (UserIndex?) -> Void, reply: @escaping @Sendable ([String]?) -> Void
    ) {
        sessions.reload(sources.changes(to: prepared), begins: begins, serve: serve, reply: reply)
    }

    func finish(_ prepared: SessionSources.Made) { sources.use(prepared) }
}
